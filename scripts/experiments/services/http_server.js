// SPDX-License-Identifier: MIT
//
// The measured Node server of the experiment services.
//
//   node http_server.js DIR
//
// DIR holds two files: `port`, the port of the loopback interface to listen on, and `text`, what the
// bodies are made of. GET /plain/BYTES answers with the first BYTES bytes of the text, GET /gzip/BYTES
// with the same, compressed.
//
// Every request makes its body anew, as a template or a proxy does, in a buffer that is its own: one
// from Buffer's pool would hide most of them from malloc. The validator (ETag) is a hash of the body, as
// the common frameworks send it. Compressing goes through zlib's asynchronous side, so buffers of one
// thread are written by others.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const zlib = require('node:zlib');

// '/plain/4096' -> { isZipped: false, bytes: 4096 }; undefined for anything else.
function parsePath(url, bytesMax) {
    const match = /^\/(plain|gzip)\/(\d{1,9})$/.exec(url);
    const bytes = Number(match?.[2]);
    return match && bytes <= bytesMax ? { isZipped: match[1] === 'gzip', bytes } : undefined;
}

function makeBody(text, bytes) {
    const body = Buffer.allocUnsafeSlow(bytes);
    const copied = text.copy(body);
    if (copied !== bytes) {
        throw new Error(`${copied} of ${bytes} bytes copied`);
    }
    return body;
}

function send(response, body, headers) {
    const etag = `"${crypto.createHash('sha1').update(body).digest('base64')}"`;
    response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': body.length, ETag: etag, ...headers });
    response.end(body);
}

function answer(text, request, response) {
    const wanted = parsePath(request.url, text.length);
    if (wanted === undefined) {
        response.writeHead(404).end();
    } else if (wanted.isZipped) {
        zlib.gzip(makeBody(text, wanted.bytes), (error, zipped) => {
            if (error) {
                throw error;
            }
            send(response, zipped, { 'Content-Encoding': 'gzip' });
        });
    } else {
        send(response, makeBody(text, wanted.bytes), {});
    }
}

function main(dir) {
    const port = Number(fs.readFileSync(path.join(dir, 'port'), 'utf8'));
    const text = fs.readFileSync(path.join(dir, 'text'));
    http.createServer((request, response) => answer(text, request, response)).listen(port, '127.0.0.1');
}

main(process.argv[2]);
