// SPDX-License-Identifier: MIT
//
// Whether an HTTP service of the experiment services does what it is measured for.
//
//   node http_check.js ready DIR      it answers
//   node http_check.js bodies DIR     every body is the right one
//
// DIR holds `port`; `paths`, a path and the size of its body on each line; `text`, whose first bytes every
// body is. A path below /gzip/ has to come compressed. `bodies` writes into DIR/body-bytes how many bytes a
// body has on the wire, in the mean over the paths: http_load.lua holds wrk's count against it.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const zlib = require('node:zlib');

const TIMEOUT_MS = 10000;

function get(port, url) {
    return new Promise((resolve, reject) => {
        const options = { host: '127.0.0.1', port, path: url, headers: { 'Accept-Encoding': 'gzip' }, timeout: TIMEOUT_MS, agent: false };
        const request = http.get(options, (response) => {
            const chunks = [];
            response.on('data', (chunk) => chunks.push(chunk));
            response.on('error', reject);
            response.on('end', () => resolve({ status: response.statusCode, encoding: response.headers['content-encoding'], body: Buffer.concat(chunks) }));
        });
        request.on('timeout', () => request.destroy(new Error(`${url}: no answer in ${TIMEOUT_MS / 1000} s`)));
        request.on('error', reject);
    });
}

// The bytes of the body on the wire.
async function check(port, url, wanted) {
    const { status, encoding, body } = await get(port, url);
    if (status !== 200) {
        throw new Error(`${url}: status ${status}`);
    }
    if ((encoding === 'gzip') !== url.startsWith('/gzip/')) {
        throw new Error(`${url}: came ${encoding === undefined ? 'without a content encoding' : `as ${encoding}`}`);
    }
    const content = encoding === 'gzip' ? zlib.gunzipSync(body) : body;
    if (content.length !== wanted.length) {
        throw new Error(`${url}: ${content.length} bytes instead of ${wanted.length}`);
    }
    if (!content.equals(wanted)) {
        throw new Error(`${url}: ${content.length} bytes as it should be, but not the right ones`);
    }
    return body.length;
}

async function main(what, dir) {
    const read = (name) => fs.readFileSync(path.join(dir, name));
    const port = Number(read('port'));
    const paths = read('paths').toString().trim().split('\n').map((line) => line.split(' '));
    if (what === 'ready') {
        await get(port, paths[0][0]);
        return;
    }
    const text = read('text');
    let wireBytes = 0;
    for (const [url, bytes] of paths) {
        wireBytes += await check(port, url, text.subarray(0, Number(bytes)));
    }
    fs.writeFileSync(path.join(dir, 'body-bytes'), `${wireBytes / paths.length}\n`);
}

main(...process.argv.slice(2)).catch((error) => {
    console.error(error.message || String(error));
    process.exitCode = 1;
});
