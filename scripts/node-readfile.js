// SPDX-License-Identifier: MIT
//
// The measured program of scripts/node-readfile: workers of one process loop fs.readFileSync(file)
// without an encoding, as in the measurement of the pool size in nodejs/node pull request 63597.
//
//   node node-readfile.js FILE BYTES WORKERS WARMUP_S SECONDS
//
// All workers read from the start to the end; the figures are the difference between two moments
// after the warm-up, so neither starting nor stopping threads is in them. Prints one line of JSON:
// those figures, and what proves which allocator served this very process.
'use strict';

const fs = require('node:fs');
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const { setTimeout: sleep } = require('node:timers/promises');

// Shared words: one that stops everybody, then one count of reads a worker, each in a cache line of its own.
const STOP = 0;
const LINE_WORDS = 16;

function readLoop({ words, slot, file, bytes }) {
    let reads = 0;
    while (Atomics.load(words, STOP) === 0) {
        if (fs.readFileSync(file).length !== bytes) {
            throw new Error(`${file} does not have ${bytes} bytes`);
        }
        words[slot] = ++reads;
    }
}

function takeSample(words, workers) {
    let reads = 0;
    for (let i = 1; i <= workers; i++) {
        reads += Atomics.load(words, i * LINE_WORDS);
    }
    const { user, system } = process.cpuUsage();
    return { reads, ns: process.hrtime.bigint(), cpuUs: user + system };
}

async function allAreReading(words, workers) {
    for (let i = 1; i <= workers; i++) {
        while (Atomics.load(words, i * LINE_WORDS) === 0) {
            await sleep(2);
        }
    }
}

// Shared objects mapped here, as the kernel names them.
function mappedLibraries() {
    const maps = fs.readFileSync('/proc/self/maps', 'latin1').split('\n');
    return [...new Set(maps.map((line) => line.split(/ +/, 6)[5]).filter((path) => /\.so\b/.test(path ?? '')))];
}

async function measure(file, bytes, workers, warmupS, seconds) {
    const words = new Int32Array(new SharedArrayBuffer((workers + 1) * LINE_WORDS * 4));
    const ended = [];
    for (let i = 1; i <= workers; i++) {
        const worker = new Worker(__filename, { workerData: { words, slot: i * LINE_WORDS, file, bytes } });
        ended.push(new Promise((resolve, reject) => worker.once('exit', resolve).once('error', reject)));
    }
    // A worker that fails ends the wait at once: without it the others would go on for ever.
    const failed = Promise.all(ended);
    await Promise.race([failed, allAreReading(words, workers)]);
    await Promise.race([failed, sleep(warmupS * 1000)]);
    const from = takeSample(words, workers);
    await Promise.race([failed, sleep(seconds * 1000)]);
    const to = takeSample(words, workers);
    const peakRssKib = process.resourceUsage().maxRSS;
    Atomics.store(words, STOP, 1);
    await failed;

    return {
        node: process.version,
        pid: process.pid,
        bytes,
        workers,
        window_reads: to.reads - from.reads,
        window_ns: Number(to.ns - from.ns),
        window_cpu_us: to.cpuUs - from.cpuUs,
        all_reads: takeSample(words, workers).reads,
        peak_rss_kib: peakRssKib,
        pool_bytes: Buffer.poolSize,
        preload: process.env.LD_PRELOAD ?? '',
        libraries: mappedLibraries(),
    };
}

if (isMainThread) {
    const [file, ...numbers] = process.argv.slice(2);
    measure(file, ...numbers.map(Number)).then(
        (figures) => fs.writeSync(1, `${JSON.stringify(figures)}\n`),
        (error) => {
            console.error(error);
            process.exit(1);
        },
    );
} else {
    readLoop(workerData);
}
