// SPDX-License-Identifier: MIT
//
// What stands behind the server of the experiment proxy: one process that answers for all its backends. It is not measured,
// and runs as long as the experiment does.
//
//   node origin.js PORT_FILE
//
// GET /account/N   200 to 600 bytes, at once
// GET /content/N   1 to 16 KiB, at once
// GET /slow/N      the same, but the second half of it 5 to 6 s later
//
// What is answered depends on N alone: length and bytes are in the header x-expected, for the proxy to check.
// Listens on a free port of the loopback interface, and says in PORT_FILE which.
'use strict';

const fs = require('node:fs');
const http = require('node:http');

const FILL_VALUES = 251;
const CONTENT_BYTES_MIN = 1024;
const CONTENT_DOUBLINGS = 4; // to 16 KiB
const SLOW_MS_MIN = 5000;
const SLOW_MS_SPAN = 1000;

const texts = Array.from({ length: FILL_VALUES }, (_, value) => Buffer.alloc(CONTENT_BYTES_MIN << CONTENT_DOUBLINGS, value));

// A number from 0 to 1 that looks random, the same for the same N.
function spread(n) {
    return ((Math.imul(n + 1, 2654435761) >>> 8) & 0xffff) / 65536;
}

// Small ones are as frequent as large ones, by powers of two.
function contentBytes(n) {
    return Math.floor(CONTENT_BYTES_MIN * 2 ** (CONTENT_DOUBLINGS * spread(n)));
}

function accountBytes(n) {
    return 200 + Math.floor(400 * spread(n));
}

const BYTES_OF = { account: accountBytes, content: contentBytes, slow: contentBytes };

function answer(request, response) {
    const [, kind, digits] = /^\/(account|content|slow)\/(\d+)$/.exec(request.url) ?? [];
    if (kind === undefined) {
        response.writeHead(404).end();
        return;
    }
    const n = Number(digits);
    const value = n % FILL_VALUES;
    const body = texts[value].subarray(0, BYTES_OF[kind](n));
    response.writeHead(200, { 'content-length': body.length, 'x-expected': `${body.length} ${value}` });
    if (kind !== 'slow') {
        response.end(body);
        return;
    }
    const half = body.length >> 1;
    response.write(body.subarray(0, half));
    const timer = setTimeout(() => response.end(body.subarray(half)), SLOW_MS_MIN + SLOW_MS_SPAN * spread(n));
    response.once('close', () => clearTimeout(timer));
}

function main(portFile) {
    // Connections of the proxy rest between requests and must not be closed under it.
    const server = http.createServer({ keepAliveTimeout: 0 }, answer);
    server.listen(0, '127.0.0.1', () => {
        fs.writeFileSync(`${portFile}.new`, `${server.address().port}\n`);
        fs.renameSync(`${portFile}.new`, portFile);
    });
    process.once('SIGTERM', () => process.exit(0));
}

main(process.argv[2]);
