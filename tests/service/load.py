# SPDX-License-Identifier: MIT
"""Puts load on a service, from a few connections at once, and prints what it answered.

Usage: load.py KIND ADDRESS FOLDER CONNECTIONS SECONDS REQUEST...

Every connection makes the requests in the order given, over and over: a pass. Each pass must get
the answers of the first one, to the byte. When all have made one, FOLDER/begun is made; when
FOLDER/stop is there, each connection makes one more whole pass and ends, so that every one has been
served after whatever happened meanwhile. Prints a line for each request of each connection (its
length and sum), and one for each error, on stdout; says on stderr how many passes there were. SECONDS
is the longest it may take, which is an error too.

KIND       ADDRESS        REQUEST
http       HOST:PORT      a path
fastcgi    HOST:PORT      a script's file and, after a "?", the query
lines      HOST:PORT      a line, which is answered by one line
memcached  HOST:PORT      "set KEY BYTES", "get KEY", "delete KEY"
redis      HOST:PORT      a command; "@BYTES" in it stands for so many bytes, "%" for the connection
sql        a folder       a statement, for the psql that $PSQL names

Keys of memcached are each connection's own, too.
"""
import hashlib
import http.client
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time

PATIENCE_S = 30  # one answer may take so long


def filler(size, name):
    """Bytes that are known by heart: any two names differ, and any shift shows."""
    line = hashlib.md5(f"{name} {size}".encode()).hexdigest()
    return "".join(f"{line} {at:09d}\n" for at in range(size // 43 + 1))[:size].encode()


class Stream:
    """A TCP connection that is read by lines and by lengths."""

    def __init__(self, address, number):
        host, port = address.rsplit(":", 1)
        self.address, self.number = (host, int(port)), number
        self.open()

    def open(self):
        self.socket = socket.create_connection(self.address, PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError(f"cut after {line!r}")
        return line.rstrip(b"\r\n")

    def exactly(self, size):
        data = self.file.read(size)
        if len(data) != size:
            raise ConnectionError(f"cut after {len(data)} of {size} bytes")
        return data


class Lines(Stream):
    def ask(self, request):
        self.socket.sendall(request.encode() + b"\n")
        return self.line()


class Memcached(Stream):
    def ask(self, request):
        verb, name, *size = request.split()
        name = f"{self.number}-{name}"
        if verb == "set":
            value = filler(int(size[0]), name)
            self.socket.sendall(f"set {name} 0 0 {len(value)}\r\n".encode() + value + b"\r\n")
            return self.line()
        self.socket.sendall(f"{verb} {name}\r\n".encode())
        head = self.line()
        if not head.startswith(b"VALUE "):
            return head
        value = self.exactly(int(head.split()[3]) + 2)
        return head + value + self.line()


class Redis(Stream):
    def ask(self, request):
        words = [word.replace("%", str(self.number)) for word in request.split()]
        words = [filler(int(word[1:]), words[1]) if word.startswith("@") else word.encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.reply()

    def reply(self):
        head = self.line()
        if head.startswith(b"-"):
            raise ValueError(head.decode())
        if head.startswith(b"$") and head != b"$-1":
            return self.exactly(int(head[1:]) + 2)
        if head.startswith(b"*"):
            return head + b"".join(self.reply() for _ in range(int(head[1:])))
        return head


class Http:
    def __init__(self, address, _number):
        self.connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)

    def ask(self, request):
        self.connection.request("GET", request)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        return body


class FastCgi(Stream):
    """One connection a request, as a FastCGI server without FCGI_KEEP_CONN has it."""

    BEGIN, END, PARAMETERS, INPUT, OUTPUT, ERRORS = 1, 3, 4, 5, 6, 7

    def open(self):
        pass

    @staticmethod
    def record(kind, content):
        return struct.pack("!BBHHBB", 1, kind, 1, len(content), 0, 0) + content

    def ask(self, request):
        script, _, query = request.partition("?")
        parameters = {"SCRIPT_FILENAME": script, "QUERY_STRING": query, "REQUEST_METHOD": "GET"}
        pairs = b"".join(struct.pack("!BB", len(name), len(value)) + name.encode() + value.encode()
                         if len(value) < 128 else
                         struct.pack("!BI", len(name), len(value) | 1 << 31) + name.encode() + value.encode()
                         for name, value in parameters.items())
        Stream.open(self)
        with self.socket, self.file:
            self.socket.sendall(self.record(self.BEGIN, struct.pack("!HB5x", 1, 0)) +
                                self.record(self.PARAMETERS, pairs) + self.record(self.PARAMETERS, b"") +
                                self.record(self.INPUT, b""))
            return self.output()

    def output(self):
        output, errors, kind = b"", b"", None
        while kind != self.END:
            _, kind, _, length, padding = struct.unpack("!BBHHBx", self.exactly(8))
            content = self.exactly(length + padding)[:length]
            output += content if kind == self.OUTPUT else b""
            errors += content if kind == self.ERRORS else b""
        if errors:
            raise ValueError(errors.decode(errors="replace"))
        return output


class Sql:
    """A psql that stays: its session is one process of the server all the time."""

    def __init__(self, address, number):
        self.psql = subprocess.Popen(
            [os.environ["PSQL"], "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", address, "-U", "postgres",
             "-d", "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def ask(self, request):
        self.psql.stdin.write(request.encode() + b";\n\\echo end of answer\n")
        self.psql.stdin.flush()
        answer = b""
        for line in self.psql.stdout:
            if line == b"end of answer\n":
                return answer
            answer += line
        raise ConnectionError(f"psql has ended: {answer.decode(errors='replace')}")


KINDS = {"http": Http, "fastcgi": FastCgi, "lines": Lines, "memcached": Memcached, "redis": Redis, "sql": Sql}


class Client(threading.Thread):
    def __init__(self, connect, number, requests, is_over):
        super().__init__(daemon=True)
        self.connect, self.number, self.requests, self.is_over = connect, number, requests, is_over
        self.passes, self.answers, self.error = 0, [], None

    def make_pass(self):
        for at, request in enumerate(self.requests):
            try:
                answer = self.service.ask(request)
            except Exception as error:
                raise RuntimeError(f"pass {self.passes}, {request}: {type(error).__name__}: {error}") from error
            line = f"{len(answer)} {hashlib.md5(answer).hexdigest()}"
            if self.passes == 0:
                self.answers.append(line)
            elif line != self.answers[at]:
                raise RuntimeError(f"pass {self.passes}, {request}: {line}, and in the first pass {self.answers[at]}")
        self.passes += 1

    def run(self):
        try:
            self.service = self.connect(self.number)
            while not self.is_over():
                self.make_pass()
            self.make_pass()
        except Exception as error:
            self.error = str(error)


def main():
    kind, address, folder, connections, seconds, *requests = sys.argv[1:]
    folder, deadline = pathlib.Path(folder), time.monotonic() + float(seconds)
    stop, begun = folder / "stop", folder / "begun"
    clients = [Client(lambda number: KINDS[kind](address, number), number, requests, stop.exists)
               for number in range(int(connections))]
    for client in clients:
        client.start()
    while any(client.is_alive() for client in clients) and time.monotonic() < deadline:
        if not begun.exists() and all(client.passes > 0 or client.error for client in clients):
            begun.touch()
        time.sleep(0.01)
    begun.touch()
    failed = False
    for client in clients:
        error = client.error or ("not over in time" if client.is_alive() else None)
        failed |= error is not None
        for request, answer in zip(requests, client.answers):
            print(f"connection {client.number}: {request}: {answer}")
        print(f"connection {client.number}: {'error: ' + error if error else 'no error'}")
    print(f"{sum(client.passes for client in clients)} passes of {len(requests)} requests", file=sys.stderr)
    sys.stdout.flush()
    os._exit(failed)  # a client that still waits must not keep us


if __name__ == "__main__":
    main()
