# SPDX-License-Identifier: MIT
"""The measured Python server of the experiment services: http.server, a thread for each connection.

    python3 http_server.py DIR

DIR holds two files: `port`, the port of the loopback interface to listen on, and `text`, what the
bodies are made of. GET /plain/BYTES answers with the first BYTES bytes of the text, GET /gzip/BYTES with
the same, compressed.

Every request puts its body together from two parts, as a template does: three bytes objects, and
Python takes each one above 512 bytes from malloc. Compressing releases the interpreter's lock, so there
threads allocate at the same time.
"""

import hashlib
import http.server
import pathlib
import re
import socketserver
import sys
import zlib

GZIP_WINDOW_BITS = 16 + 15  # zlib's way to ask for gzip's framing


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"  # connections stay open
    # Headers and body are two writes, and Nagle's algorithm would hold the second back for 40 ms.
    disable_nagle_algorithm = True
    text = b""

    def make_body(self, size):
        middle = size // 2
        body = b"".join((self.text[:middle], self.text[middle:size]))
        if len(body) != size:
            raise ValueError(f"{len(body)} of {size} bytes")
        return body

    # The name is http.server's.
    def do_GET(self):  # pylint: disable=invalid-name
        match = re.fullmatch(r"/(plain|gzip)/(\d{1,9})", self.path)
        if not match or int(match[2]) > len(self.text):
            self.send_error(404)
            return
        body = self.make_body(int(match[2]))
        is_zipped = match[1] == "gzip"
        if is_zipped:
            compressor = zlib.compressobj(wbits=GZIP_WINDOW_BITS)
            body = compressor.compress(body) + compressor.flush()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        if is_zipped:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """No log: a line for each request would be what is measured."""


class Server(http.server.ThreadingHTTPServer):
    """As it comes, but for a queue that takes all clients at once, and no question to the name service."""

    request_queue_size = 128

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address


def main():
    folder = pathlib.Path(sys.argv[1])
    Handler.text = (folder / "text").read_bytes()
    Server(("127.0.0.1", int((folder / "port").read_text())), Handler).serve_forever()


main()
