#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Java: the virtual machine leaves SIGUSR1 to the program, which here has a handler for it. It uses SIGUSR2 and
# real memory faults for itself, and direct buffers come from malloc.
set -euo pipefail
about='Takes dumps of a Java virtual machine whose threads fill direct buffers.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=Java
kind=lines
process_count=1
service_needs java 'javac|ecj'

for bytes in 10 1100 4000 9000 30000 200000; do
    requests+=("$bytes")
done

# The compiler of Eclipse needs no more than the run-time environment.
cat >"$scratch/Server.java" <<'JAVA'
import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.util.zip.CRC32;

public class Server {
    static long fill(int bytes) {
        CRC32 sum = new CRC32();
        for (int i = 0; i < 20; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(bytes);
            while (buffer.hasRemaining())
                buffer.put((byte) (buffer.position() * 31 + i));
            buffer.flip();
            sum.update(buffer);
        }
        return sum.getValue();
    }

    static void serve(Socket client) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(client.getInputStream()));
             Writer out = new OutputStreamWriter(client.getOutputStream())) {
            for (String line; (line = in.readLine()) != null;) {
                out.write(line + " " + fill(Integer.parseInt(line)) + "\n");
                out.flush();
            }
        } catch (IOException gone) {
            System.err.println(gone);
        }
    }

    public static void main(String[] arguments) throws IOException {
        sun.misc.Signal.handle(new sun.misc.Signal("USR1"), signal -> System.out.println("handled USR1"));
        ServerSocket server = new ServerSocket(Integer.parseInt(arguments[0]), 50, InetAddress.getByName("127.0.0.1"));
        for (;;) {
            Socket client = server.accept();
            new Thread(() -> serve(client)).start();
        }
    }
}
JAVA
case $(first_command javac ecj) in
*/javac) compile=(javac -nowarn -d "$scratch/classes") ;;
*) compile=(ecj -11 -nowarn -d "$scratch/classes") ;;
esac
mkdir "$scratch/classes"
if ! "${compile[@]}" "$scratch/Server.java" >"$scratch/compiled" 2>&1; then
    tap_not_ok 'Java compiles the server'
    tap_note "$(cat "$scratch/compiled")"
    tap_done
    exit
fi

configure() {
    :
}

launch() {
    serve java -Xmx128m -Xss256k -XX:MaxDirectMemorySize=64m -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp "$scratch/classes" Server "$port"
}

handler_calls() {
    grep -c 'handled USR1' "$run/stdout" || true
}

has_handled() {
    [ "$(handler_calls)" -ge "$1" ]
}

own_handler() {
    local how
    for how in chain shell; do
        handler_runs "$how" "$master" 'runs its own handler' has_handled $(($(handler_calls) + 1))
    done
}

service_test
