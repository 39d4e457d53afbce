// SPDX-License-Identifier: MIT
//
// The load of the redis service of the experiment services.
//
//   node redis_load.js DIR SECONDS [--links-jemalloc]
//
// DIR holds `port`. redis-benchmark writes all its values in one size, so it is run again and again, with a
// size after the other over the same keys: a write replaces a value of some other size, as in a cache. The
// first pass over the sizes fills the server and counts for nothing; after it only whole passes are made,
// so every run has the same mix. Then the server is asked whether it did that work: its counts of commands,
// no error, values of the sizes written.
//
// --links-jemalloc: the server is linked with jemalloc, and the arm has to displace it (all but the arm
// jemalloc). jemalloc's own account, which the server reports, shows whether it did: it holds the data or
// next to nothing.
//
// Prints what `pinpool ab` reads, and exits with 1 if something is not as it should be.
'use strict';

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

// Small and large ones in turn: a batch replaces more than half of the values.
const VALUE_BYTES = [4000, 13000, 2000, 16000, 7000, 10000];
const KEYS = 6000; // about 60 MB of data
// Of each command and size. Fewer take so few milliseconds that redis-benchmark's clock, which counts them,
// is too coarse; a load of a second or two, to see whether it works, takes them all the same.
const REQUESTS = 5000;
const REQUESTS_PER_S = 1250;
const CLIENTS = 16;
const PIPELINE = 4;
const SAMPLED_KEYS = 200;

// Bounds for jemalloc's share of the data.
const SERVES_PERCENT = 90;
const IDLE_PERCENT = 10;

function run(command, args) {
    const { status, signal, error, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
    if (error) {
        throw error;
    }
    if (status !== 0) {
        throw new Error(`${command} ended with ${signal ?? `exit status ${status}`}: ${(stderr || stdout).trim()}`);
    }
    return stdout;
}

// redis-benchmark's CSV: a header, then a row of quoted fields for each command.
function parseCsv(text) {
    const rows = text.trim().split('\n').filter((line) => line.startsWith('"')).map((line) => line.split(',').map((field) => field.replace(/^"|"$/g, '')));
    const [header, ...values] = rows;
    return values.map((fields) => Object.fromEntries(header.map((name, i) => [name, fields[i]])));
}

function benchmark(port, bytes, requests) {
    const options = { '-p': port, '-c': CLIENTS, '-P': PIPELINE, '-n': requests, '-r': KEYS, '-d': bytes, '-t': 'set,get' };
    const text = run('redis-benchmark', ['-h', '127.0.0.1', ...Object.entries(options).flat().map(String), '--csv']);
    const rows = parseCsv(text).map((row) => ({ command: row.test, rate: Number(row.rps), p99Ms: Number(row.p99_latency_ms) }));
    const isWhole = rows.length === 2 && rows[0].command === 'SET' && rows[1].command === 'GET' && rows.every((row) => row.rate > 0 && row.p99Ms > 0);
    if (!isWhole) {
        throw new Error(`redis-benchmark said what is not understood: ${text.trim()}`);
    }
    return rows;
}

function pass(port, requests) {
    return VALUE_BYTES.flatMap((bytes) => benchmark(port, bytes, requests));
}

// The rows of all passes but the first, and how many passes there were.
function loadFor(port, seconds, requests) {
    const endMs = performance.now() + seconds * 1000;
    const rows = [];
    let passes = 1;
    pass(port, requests);
    do {
        rows.push(...pass(port, requests));
        passes++;
    } while (performance.now() < endMs);
    return { rows, passes };
}

// The fields of INFO all, as text.
function serverInfo(port) {
    const lines = run('redis-cli', ['-h', '127.0.0.1', '-p', String(port), 'info', 'all']).split(/\r?\n/);
    return new Map(lines.filter((line) => line.includes(':')).map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
}

function callsOf(info, command) {
    return Number(/calls=(\d+)/.exec(info.get(`cmdstat_${command}`) ?? '')?.[1] ?? 0);
}

// requests: of each of the commands, altogether.
function checkWork(port, info, requests) {
    for (const command of ['set', 'get']) {
        if (callsOf(info, command) < requests) {
            throw new Error(`the server counts ${callsOf(info, command)} calls of ${command} instead of ${requests}`);
        }
    }
    if (Number(info.get('total_error_replies')) !== 0) {
        throw new Error(`the server counts ${info.get('total_error_replies')} errors`);
    }
    const script = `local sizes = {} for i = 0, ${SAMPLED_KEYS - 1} do sizes[#sizes + 1] = redis.call('strlen', string.format('key:%012d', i)) end return table.concat(sizes, ' ')`;
    const sizes = run('redis-cli', ['-h', '127.0.0.1', '-p', String(port), 'eval', script, '0']).trim().split(' ').map(Number);
    const written = sizes.filter((bytes) => bytes !== 0);
    if (sizes.length !== SAMPLED_KEYS || written.length < SAMPLED_KEYS / 2 || !written.every((bytes) => VALUE_BYTES.includes(bytes))) {
        throw new Error(`of ${SAMPLED_KEYS} keys, the values have these sizes: ${[...new Set(sizes)].join(' ')}`);
    }
}

// Per cent of the data that is in jemalloc's hands.
function jemallocPercent(info) {
    if (!/^jemalloc/.test(info.get('mem_allocator'))) {
        throw new Error(`the server's allocator is ${info.get('mem_allocator')}, not jemalloc`);
    }
    return Math.min(100, (Number(info.get('allocator_allocated')) / Number(info.get('used_memory'))) * 100);
}

function checkAllocator(arm, share) {
    if (arm === 'jemalloc' ? share < SERVES_PERCENT : share > IDLE_PERCENT) {
        throw new Error(`arm ${arm}: jemalloc, which the server is linked with, holds ${share.toFixed(0)} % of the data`);
    }
}

function main(dir, seconds, linked) {
    const port = Number(fs.readFileSync(path.join(dir, 'port'), 'utf8'));
    const requests = Math.min(REQUESTS, REQUESTS_PER_S * Number(seconds));
    const { rows, passes } = loadFor(port, Number(seconds), requests);
    // The server takes its allocator's account ten times a second.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
    const info = serverInfo(port);
    checkWork(port, info, passes * VALUE_BYTES.length * requests);
    const spentS = rows.reduce((sum, row) => sum + requests / row.rate, 0);
    console.log(`requests: ${rows.length * requests} in ${spentS.toFixed(2)} s, ${info.get('used_memory')} bytes used`);
    if (linked !== undefined) {
        const share = jemallocPercent(info);
        console.log(`arm ${process.env.PINPOOL_AB_ARM}: jemalloc holds ${share.toFixed(2)} % of the data`);
        checkAllocator(process.env.PINPOOL_AB_ARM, share);
    }
    console.log(`requests_per_s: ${((rows.length * requests) / spentS).toFixed(1)}`);
    console.log(`p99: ${(rows.reduce((sum, row) => sum + row.p99Ms, 0) / rows.length).toFixed(4)}ms`);
}

try {
    main(...process.argv.slice(2));
} catch (error) {
    console.error(error.message);
    process.exitCode = 1;
}
