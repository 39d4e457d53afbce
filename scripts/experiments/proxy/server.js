// SPDX-License-Identifier: MIT
//
// The service of the experiment proxy, after the one that nodejs/node#67235 describes: a reverse proxy that asks two
// backends for each request. It keeps buffers of very different lifetimes:
//
//   a request's headers, the pieces of its answers and the whole of them   as long as the request: most take
//                                                      milliseconds, the slow ones 5 to 6 s
//   a session's cookie                                 5 s to 10 min, then it is taken anew from the next
//                                                      request of that session
//
// The sessions are as many at the start as at the end, so what is live does not grow. They are loaded together,
// as from a store, and lie close together then; one by one they are replaced by others that lie anywhere.
//
//   node server.js PORT_FILE
//
// PORT_FILE is that of origin.js. BUFFER_POOL_SIZE sets Buffer.poolSize; with 0 every buffer is an
// allocation of its own, and reaches malloc. Listens on a free port of the loopback interface and prints
// "listening on PORT", and from then on each second what process.memoryUsage() says, as a line of JSON.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const { useNodePool } = require('../node_pool.js');

const SESSIONS = 3000;
const TTL_S_MIN = 5;
const TTL_S_MAX = 600;
// As the cookies in load.lua.
const COOKIE_BYTES_MIN = 1100;
const COOKIE_BYTES_MAX = 3300;

class Sessions {
    constructor() {
        this.entries = Array.from({ length: SESSIONS }, () => {
            const bytes = COOKIE_BYTES_MIN + Math.floor(Math.random() * (COOKIE_BYTES_MAX - COOKIE_BYTES_MIN));
            return Sessions.entry('s'.repeat(bytes));
        });
        this.renewed = 0;
    }

    // Log-uniform: as many live from 5 to 10 s as from 5 to 10 minutes.
    static entry(cookie) {
        const ttlS = TTL_S_MIN * (TTL_S_MAX / TTL_S_MIN) ** Math.random();
        return { cookie: Buffer.from(cookie, 'latin1'), expiresMs: Date.now() + ttlS * 1000 };
    }

    touch(n, cookie) {
        if (this.entries[n].expiresMs < Date.now()) {
            this.entries[n] = Sessions.entry(cookie);
            this.renewed++;
        }
    }
}

class Backends {
    constructor(port) {
        this.port = port;
        this.agent = new http.Agent({ keepAlive: true });
    }

    // The whole body; rejects when it is not what the origin meant to send.
    get(path) {
        return new Promise((resolve, reject) => {
            const request = http.get({ host: '127.0.0.1', port: this.port, path, agent: this.agent }, (response) => {
                const chunks = [];
                response.on('data', (chunk) => chunks.push(chunk));
                response.once('error', reject);
                response.once('end', () => {
                    const body = Buffer.concat(chunks);
                    const [bytes, value] = String(response.headers['x-expected']).split(' ').map(Number);
                    const isWhole = body.length === bytes && body[0] === value && body[bytes - 1] === value;
                    isWhole ? resolve(body) : reject(new Error(`${path}: ${body.length} bytes, expected ${response.headers['x-expected']}`));
                });
            });
            request.once('error', reject);
        });
    }
}

class Proxy {
    constructor(backends, sessions) {
        this.backends = backends;
        this.sessions = sessions;
        this.served = 0;
        this.failed = 0;
        this.headBytes = 0;
    }

    async serve(request, response) {
        // Kept for the whole request, as by whoever retries or logs it.
        const head = Buffer.from(request.rawHeaders.join('\r\n'), 'latin1');
        const [, kind, digits] = /^\/(content|slow)\/(\d+)$/.exec(request.url) ?? [];
        if (kind === undefined || Number(digits) >= SESSIONS) {
            response.writeHead(404).end();
            return;
        }
        try {
            this.sessions.touch(Number(digits), request.headers.cookie);
            const [account, content] = await Promise.all([this.backends.get(`/account/${digits}`), this.backends.get(request.url)]);
            response.writeHead(200, { 'content-length': content.length, 'x-account-bytes': account.length });
            response.end(content);
            this.served++;
            this.headBytes += head.length;
        } catch (error) {
            this.failed++;
            console.error(error.message);
            response.writeHead(502).end();
        }
    }

    report() {
        const { served, failed, headBytes, sessions } = this;
        return { served, failed, mean_head_bytes: Math.round(headBytes / Math.max(1, served)), sessions_renewed: sessions.renewed };
    }
}

function printMemory() {
    const { external, arrayBuffers, heapUsed } = process.memoryUsage();
    console.log(JSON.stringify({ time_s: process.uptime(), external, array_buffers: arrayBuffers, heap_used: heapUsed }));
}

function main(portFile) {
    useNodePool(COOKIE_BYTES_MIN);
    const proxy = new Proxy(new Backends(Number(fs.readFileSync(portFile, 'utf8'))), new Sessions());
    const server = http.createServer((request, response) => proxy.serve(request, response));
    server.listen(0, '127.0.0.1', () => {
        console.log(`Node ${process.version}, Buffer.poolSize ${Buffer.poolSize}`);
        console.log(`listening on ${server.address().port}`);
        setInterval(printMemory, 1000);
    });
    process.once('SIGTERM', () => {
        fs.writeSync(1, `${JSON.stringify(proxy.report())}\n`);
        process.exit(0);
    });
}

main(process.argv[2]);
