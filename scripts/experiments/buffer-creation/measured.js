// SPDX-License-Identifier: MIT
//
// The measured program of the experiment buffer-creation: how many buffers of one type and length can be
// created in a second when each is dropped at once. Written from the description of Node's benchmark of that name
// (nodejs/node#61967); it creates for a fixed time instead of a fixed number.
//
//   node measured.js speed   WARMUP_S SECONDS TYPE:LENGTH...
//   node measured.js account WARMUP_S SECONDS TYPE:LENGTH...
//
// speed prints a line for each TYPE:LENGTH:   slow-allocUnsafe len=16384: 312345.6
// account creates as speed does, while the process asks pinpool for dumps, and prints for each what the
// pool held meanwhile:                        slow-allocUnsafe len=16384 live_bytes: 23456789.0
//
// Every TYPE:LENGTH has a process of its own, started by the first one with the same Node, flags and
// environment. In one process a length would begin with what the one before left: its garbage, which the
// account would count, the collector's limits, which adapt to it, and code compiled for other lengths.
// That bias would be the same in every round, so that no number of rounds shows it. A start takes some
// 50 ms, outside the time that is measured.
//
// BUFFER_CREATION_VERSION, if set, is the version that this has to run on: it fails on another.
'use strict';

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { PerformanceObserver, constants, performance } = require('node:perf_hooks');
const buffer = require('node:buffer');
const { DUMP_BYTES_MAX, isPreloaded, takeDump } = require('../dump.js');

// Some of the types are deprecated. Saying so once is not what is measured.
process.noDeprecation = true;

// By the names that the benchmark has for them. is_zero: the contents are promised to be 0.
const TYPES = {
    'buffer()': { make: (length) => Buffer(length), isZero: true },
    'fast-alloc': { make: (length) => Buffer.alloc(length), isZero: true },
    'fast-alloc-fill': { make: (length) => Buffer.alloc(length, 0), isZero: true },
    'fast-allocUnsafe': { make: (length) => Buffer.allocUnsafe(length), isZero: false },
    'slow': { make: buffer.SlowBuffer && ((length) => buffer.SlowBuffer(length)), isZero: false },
    'slow-allocUnsafe': { make: (length) => Buffer.allocUnsafeSlow(length), isZero: false },
};
const LENGTH_MAX = 64 << 20;

// Between two looks at the clock: so many that the look costs nothing, so few that they take well under a
// millisecond.
const BATCH_BYTES = 1 << 20;
const BATCH_MAX = 1024;

const DUMPS = 12; // while one length is created
const LONG_AGE_MS = 100; // a bound of the dump's classes of age; many collections happen meanwhile

function fail(why) {
    fs.writeSync(2, `buffer-creation: ${why}\n`);
    process.exit(1);
}

// --- creating -------------------------------------------------------------------------------------

let sink; // the last buffer: what is dropped at once and never seen could be left out by the compiler

function checkZero(length) {
    for (const at of [0, length >> 1, length - 1]) {
        if (sink[at] !== 0) {
            fail(`a buffer of ${length} bytes that should be zero has ${sink[at]} at ${at}`);
        }
    }
}

// Creates for `seconds`; afterBatch(elapsedMs) is called between batches. -> {creations, seconds}
function createFor({ make, isZero }, length, seconds, afterBatch) {
    const batch = Math.max(1, Math.min(BATCH_MAX, Math.floor(BATCH_BYTES / length)));
    const startMs = performance.now();
    let creations = 0;
    let bytes = 0;
    let elapsedMs;
    do {
        for (let i = 0; i < batch; i++) {
            sink = make(length);
            bytes += sink.length;
        }
        creations += batch;
        if (isZero) {
            checkZero(length);
        }
        elapsedMs = performance.now() - startMs;
        if (afterBatch !== null) {
            afterBatch(elapsedMs);
        }
    } while (elapsedMs < seconds * 1000);
    if (bytes !== creations * length) {
        fail(`${creations} buffers of ${length} bytes have ${bytes} bytes`);
    }
    return { creations, seconds: elapsedMs / 1000 };
}

function measureSpeed(type, length, warmupS, seconds) {
    createFor(TYPES[type], length, warmupS, null);
    const { creations, seconds: took } = createFor(TYPES[type], length, seconds, null);
    return [`${type} len=${length}: ${(creations / took).toFixed(1)}`];
}

// --- dumps ----------------------------------------------------------------------------------------

// What the pools held at one moment, and Node's buffers just after it.
function lookAtPools() {
    const records = takeDump();
    return { records, arrayBufferBytes: process.memoryUsage().arrayBuffers };
}

// What of a dump is about one length: the tier that serves it, and the classes of its pinned blocks.
function tierOf({ records, arrayBufferBytes }, length) {
    const tier = records.find((r) => r.type === 'tier' && r.min_request_bytes <= length && length <= r.max_request_bytes);
    if (tier === undefined) {
        fail(`no pool serves ${length} bytes`);
    }
    // All of Node's buffers are of this length, apart from a few small ones and the one dumps are read into.
    // After the dump the collector's threads can only have made them fewer.
    const expected = arrayBufferBytes - DUMP_BYTES_MAX - (512 << 10);
    if (tier.live_bytes < expected) {
        fail(`pools of ${tier.block_bytes} bytes have ${tier.live_bytes} live bytes, Node's buffers ${expected}`);
    }
    const ages = records.filter((r) => r.type === 'age' && r.block_bytes === tier.block_bytes);
    return { tier, ages };
}

// --- the account ----------------------------------------------------------------------------------

function sum(values) {
    return values.reduce((total, value) => total + value, 0);
}

function ratio(part, whole) {
    return whole > 0 ? part / whole : 0;
}

// The age that half of the pinned blocks have at least: within a class as if they were spread evenly, in the
// last, which has no end, its beginning.
function medianAgeMs(ages) {
    const classes = new Map(); // by beginning, over all dumps
    for (const { blocks, from_ms: from, to_ms: to } of ages) {
        const before = classes.get(from)?.blocks ?? 0;
        classes.set(from, { from, to: to ?? from, blocks: before + blocks });
    }
    let left = sum(ages.map((age) => age.blocks)) / 2;
    for (const { from, to, blocks } of [...classes.values()].sort((x, y) => x.from - y.from)) {
        if (left <= blocks) {
            return from + (to - from) * ratio(left, blocks);
        }
        left -= blocks;
    }
    return 0;
}

// Means over the dumps; what is a share is one of sums, so that a dump counts by what was there. Shares of
// nothing are 0.
function summarise(dumps, length) {
    const total = (field) => sum(dumps.map(({ tier }) => tier[field]));
    const ages = dumps.flatMap((dump) => dump.ages);
    // A dump does not count the live slices of pinned blocks, but their bytes, and a slice is whole granules.
    // So this counts in slices of this length; Node has a few others.
    const [{ tier: { block_bytes: blockBytes, granule_bytes: granuleBytes } }] = dumps;
    const sliceBytes = Math.ceil(length / granuleBytes) * granuleBytes;
    const pinned = total('pinned_blocks');
    const longPinned = sum(ages.filter((age) => age.from_ms >= LONG_AGE_MS).map((age) => age.blocks));
    return {
        live_bytes: total('live_bytes') / dumps.length,
        held_bytes: total('held_bytes') / dumps.length,
        stranded_bytes: total('stranded_bytes') / dumps.length,
        empty_bytes: (total('empty_blocks') * blockBytes) / dumps.length,
        pinned_blocks: pinned / dumps.length,
        slices_per_block: ratio(total('pinned_live_bytes') / sliceBytes, pinned),
        room_per_block: Math.floor(blockBytes / sliceBytes),
        fill_percent: 100 * ratio(total('pinned_live_bytes'), total('pinned_live_bytes') + total('stranded_bytes')),
        sole_percent: 100 * ratio(total('sole_pinner_blocks'), pinned),
        age_ms: medianAgeMs(ages),
        long_percent: 100 * ratio(longPinned, pinned),
    };
}

// Counts collections; they are reported when the event loop turns, so after the creating.
function watchCollections() {
    const entries = [];
    const observer = new PerformanceObserver((list) => entries.push(...list.getEntries()));
    observer.observe({ entryTypes: ['gc'] });
    const countKind = (kind, fromMs, toMs) =>
        entries.filter((e) => (e.detail?.kind ?? e.kind) === kind && e.startTime >= fromMs && e.startTime < toMs).length;
    return { observer, countKind };
}

function turnEventLoop() {
    return new Promise((resolve) => setTimeout(resolve, 20));
}

async function measureAccount(type, length, warmupS, seconds) {
    if (!isPreloaded()) {
        fail('account needs pinpool');
    }
    if (length < 2) {
        fail(`${length} bytes are never in a pool`);
    }
    const collections = watchCollections();
    createFor(TYPES[type], length, warmupS, null);
    // At moments that have nothing to do with the collector's rhythm: one in each of DUMPS equal parts.
    const partMs = (seconds * 1000) / DUMPS;
    const dumps = [];
    let nextMs = partMs * Math.random();
    const startMs = performance.now();
    const { seconds: took } = createFor(TYPES[type], length, seconds, (elapsedMs) => {
        if (elapsedMs >= nextMs && dumps.length < DUMPS) {
            dumps.push(tierOf(lookAtPools(), length));
            nextMs = partMs * (dumps.length + Math.random());
        }
    });
    if (dumps.length === 0) {
        fail(`${seconds} s are too short for a dump`);
    }
    await turnEventLoop();
    const perSecond = (kind) => collections.countKind(kind, startMs, startMs + took * 1000) / took;
    const figures = {
        ...summarise(dumps, length),
        scavenges_per_s: perSecond(constants.NODE_PERFORMANCE_GC_MINOR),
        mark_compacts_per_s: perSecond(constants.NODE_PERFORMANCE_GC_MAJOR),
        dumps: dumps.length,
    };
    collections.observer.disconnect();
    return Object.entries(figures).map(([name, value]) => `${type} len=${length} ${name}: ${value.toFixed(3)}`);
}

// --- processes ------------------------------------------------------------------------------------

function parseWork(text) {
    const [type, digits] = text.split(':');
    const length = Number(digits);
    if (!Object.hasOwn(TYPES, type)) {
        fail(`${type}: no such type; there are ${Object.keys(TYPES).join(', ')}`);
    }
    if (TYPES[type].make === undefined) {
        fail(`${type}: Node ${process.version} has none`);
    }
    if (!Number.isInteger(length) || length < 1 || length > LENGTH_MAX) {
        fail(`${text}: not TYPE:LENGTH`);
    }
    return { type, length };
}

function parseSeconds(text) {
    const seconds = Number(text);
    if (!(seconds > 0 && seconds <= 3600)) {
        fail(`${text}: not a number of seconds above 0`);
    }
    return seconds;
}

// One TYPE:LENGTH, in this process.
async function runOne(mode, warmupS, seconds, { type, length }) {
    const measure = mode === 'speed' ? measureSpeed : measureAccount;
    const lines = await measure(type, length, warmupS, seconds);
    fs.writeSync(1, `${lines.join('\n')}\n`);
}

// Each in a process of its own, one after the other.
function runEach(mode, times, works) {
    for (const { type, length } of works) {
        const words = [...process.execArgv, __filename, `one-${mode}`, ...times, `${type}:${length}`];
        const { status, signal, error } = spawnSync(process.execPath, words, { stdio: ['ignore', 'inherit', 'inherit'] });
        if (status !== 0) {
            fail(`the process for ${type} ${length} ended with ${error?.message ?? signal ?? `exit status ${status}`}`);
        }
    }
}

async function main([mode, ...words]) {
    const wanted = process.env.BUFFER_CREATION_VERSION;
    if (wanted && process.version !== `v${wanted}`) {
        fail(`this is Node ${process.version}, not ${wanted}`);
    }
    const kind = /^(one-)?(speed|account)$/.exec(mode ?? '');
    if (kind === null || words.length < 3) {
        fail('usage: measured.js speed|account WARMUP_S SECONDS TYPE:LENGTH...');
    }
    const times = words.slice(0, 2);
    const [warmupS, seconds] = times.map(parseSeconds);
    const works = words.slice(2).map(parseWork);
    if (kind[1] !== undefined) {
        await runOne(kind[2], warmupS, seconds, works[0]);
        return;
    }
    fs.writeSync(1, `Node ${process.version}, V8 ${process.versions.v8}, flags ${process.execArgv.join(' ') || 'none'}\n`);
    runEach(kind[2], times, works);
}

main(process.argv.slice(2)).catch((error) => fail(error.stack));
