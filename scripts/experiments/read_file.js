// SPDX-License-Identifier: MIT
//
// What the experiments readfile, lock-waits and pool-sizes measure: readers that loop
// fs.readFileSync(file), either threads of this process or processes of their own, which read in their only
// thread. Written from the description in nodejs/node#63597.
//
//   node read_file.js FILE BYTES READERS WARMUP_S SECONDS [threads|processes]
//
// Starting takes longer than a short measurement, so all readers wait for the last one and begin together.
// The figures are the difference between two moments after the warm-up: neither starting nor stopping is in
// them. Prints one line of JSON: those figures, and what proves which allocator served this very process.
'use strict';

const fs = require('node:fs');
const { fork } = require('node:child_process');
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const { setTimeout: sleep } = require('node:timers/promises');

// The file is read whole in each of them: what is compared is not less work.
function readOnce(file, bytes) {
    if (fs.readFileSync(file).length !== bytes) {
        throw new Error(`${file} does not have ${bytes} bytes`);
    }
}

function cpuUs() {
    const { user, system } = process.cpuUsage();
    return user + system;
}

function difference(from, to) {
    const ns = Number(to.ns - from.ns);
    return { reads: to.reads - from.reads, ns, cpuUs: to.cpuUs - from.cpuUs, peakRssKib: to.peakRssKib };
}

// --- threads --------------------------------------------------------------------------------------

// Shared words: how many readers are ready, one that lets them go, one that stops them, then one count of
// reads a reader; each in a cache line of its own.
const LINE_WORDS = 16;
const READY = 0;
const GO = LINE_WORDS;
const STOP = 2 * LINE_WORDS;
const FIRST_COUNT = 3;

function readInThread({ words, slot, file, bytes }) {
    Atomics.add(words, READY, 1);
    Atomics.wait(words, GO, 0);
    let reads = 0;
    while (Atomics.load(words, STOP) === 0) {
        readOnce(file, bytes);
        words[slot] = ++reads;
    }
}

function takeSample(words, readers) {
    let reads = 0;
    for (let i = 0; i < readers; i++) {
        reads += Atomics.load(words, (FIRST_COUNT + i) * LINE_WORDS);
    }
    return { reads, ns: process.hrtime.bigint(), cpuUs: cpuUs(), peakRssKib: process.resourceUsage().maxRSS };
}

async function allAreReady(words, readers) {
    while (Atomics.load(words, READY) < readers) {
        await sleep(2);
    }
}

async function measureThreads(file, bytes, readers, warmupS, seconds) {
    const words = new Int32Array(new SharedArrayBuffer((FIRST_COUNT + readers) * LINE_WORDS * 4));
    const ended = [];
    for (let i = 0; i < readers; i++) {
        const worker = new Worker(__filename, { workerData: { words, slot: (FIRST_COUNT + i) * LINE_WORDS, file, bytes } });
        ended.push(new Promise((resolve, reject) => worker.once('exit', resolve).once('error', reject)));
    }
    // A reader that fails ends the wait at once: without it the others would go on for ever.
    const failed = Promise.all(ended);
    await Promise.race([failed, allAreReady(words, readers)]);
    Atomics.store(words, GO, 1);
    Atomics.notify(words, GO);
    await Promise.race([failed, sleep(warmupS * 1000)]);
    const from = takeSample(words, readers);
    // Longer than asked for where the machine is so busy that nobody has read anything.
    let to = from;
    while (to.reads === from.reads) {
        await Promise.race([failed, sleep(seconds * 1000)]);
        to = takeSample(words, readers);
    }
    Atomics.store(words, STOP, 1);
    await failed;
    return [{ ...difference(from, to), allReads: takeSample(words, readers).reads }];
}

// --- processes ------------------------------------------------------------------------------------

const READER = '--reader';

// In a process of its own: reads for so long, in its only thread, and tells its parent.
function readInProcess(file, bytes, warmupS, seconds) {
    let reads = 0;
    const readFor = (duration) => {
        const end = process.hrtime.bigint() + BigInt(Math.round(duration * 1e9));
        do {
            readOnce(file, bytes);
            reads++;
        } while (process.hrtime.bigint() < end);
        return { reads, ns: process.hrtime.bigint(), cpuUs: cpuUs(), peakRssKib: process.resourceUsage().maxRSS };
    };
    process.once('message', () => {
        const from = readFor(warmupS);
        const to = readFor(seconds);
        process.send({ ...difference(from, to), allReads: reads }, () => process.disconnect());
    });
    process.send('ready');
}

function message(child) {
    return new Promise((resolve, reject) => {
        child.once('message', resolve).once('error', reject);
        child.once('exit', (code, signal) => reject(new Error(`a reader ended with ${signal ?? `status ${code}`}`)));
    });
}

async function measureProcesses(file, ...numbers) {
    const [bytes, readers, warmupS, seconds] = numbers;
    const children = Array.from({ length: readers }, () => fork(__filename, [READER, file, bytes, warmupS, seconds].map(String)));
    await Promise.all(children.map(message));
    const figures = children.map(message);
    children.forEach((child) => child.send('go'));
    return Promise.all(figures);
}

// --- main -----------------------------------------------------------------------------------------

// Shared objects mapped here, as the kernel names them.
function mappedLibraries() {
    const maps = fs.readFileSync('/proc/self/maps', 'latin1').split('\n');
    return [...new Set(maps.map((line) => line.split(/ +/, 6)[5]).filter((path) => /\.so\b/.test(path ?? '')))];
}

// parts: the figures of each process that read. Pages that processes share are in the sum of their sizes
// once for each.
function report(kind, bytes, readers, parts) {
    const sum = (figure) => parts.reduce((total, part) => total + figure(part), 0);
    return {
        node: process.version,
        pid: process.pid,
        kind,
        readers,
        bytes,
        window_reads: sum((part) => part.reads),
        window_ns: Math.max(...parts.map((part) => part.ns)),
        window_cpu_us: sum((part) => part.cpuUs),
        reads_per_s: Number(sum((part) => (part.reads * 1e9) / part.ns).toFixed(1)),
        all_reads: sum((part) => part.allReads),
        peak_rss_kib: sum((part) => part.peakRssKib),
        pool_bytes: Buffer.poolSize,
        preload: process.env.LD_PRELOAD ?? '',
        libraries: mappedLibraries(),
    };
}

async function main([file, ...words]) {
    const [bytes, readers, warmupS, seconds] = words.slice(0, 4).map(Number);
    const kind = words[4] ?? 'threads';
    const measure = { threads: measureThreads, processes: measureProcesses }[kind];
    const parts = await measure(file, bytes, readers, warmupS, seconds);
    fs.writeSync(1, `${JSON.stringify(report(kind, bytes, readers, parts))}\n`);
}

if (!isMainThread) {
    readInThread(workerData);
} else if (process.argv[2] === READER) {
    readInProcess(process.argv[3], ...process.argv.slice(4).map(Number));
} else {
    main(process.argv.slice(2)).catch((error) => {
        console.error(error);
        process.exit(1);
    });
}
