// SPDX-License-Identifier: MIT
//
// The measured program of the experiment mixed-lifetimes, written from the description in nodejs/node#67235: many small
// buffers from Buffer.allocUnsafe, most of them short-lived as those of fast requests, some long-lived as
// those of slow ones, all from one pool.
//
//   node measured.js SECONDS STEADY_FROM_S RATE_PER_S
//
// BUFFER_POOL_SIZE sets Buffer.poolSize; with 0 every buffer is an allocation of its own, and reaches malloc.
//
// The pace is fixed, and sizes and lifetimes are the same sequence in every run: memory is compared at equal
// work. Who cannot keep the pace catches up as fast as it can; ops_per_s and cpu_percent show it.
//
// The source gives the two lifetimes and the duration. Sizes, rate and share are ours: the sizes are such that
// both of Node's pools serve them (each serves what is below half of it), and pinpool does.
'use strict';

const fs = require('node:fs');
const { isPreloaded, takeDump } = require('../dump.js');
const { useNodePool } = require('../node_pool.js');

const MIN_BYTES = 1100;
const MAX_BYTES = 4000;
const LONG_SHARE = 0.02;
const SHORT_MS = [20, 30];
const LONG_MS = [5000, 6000];

// Slot i of the wheel holds what expires in the milliseconds that are i modulo its size.
const WHEEL_MS = 8192;
const SAMPLE_MS = 250;

// xorshift32: the same numbers in every run.
function makeRandom(seed) {
    let state = seed;
    return () => {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return (state >>> 0) / 4294967296;
    };
}

// What a buffer's memory has to say at its end: that it kept its length, and that nobody else wrote to it.
function mark(buffer) {
    return buffer.fill(buffer.length % 251);
}

function checkMark(buffer) {
    const value = buffer.length % 251;
    if (buffer[0] !== value || buffer[buffer.length - 1] !== value) {
        throw new Error(`a buffer of ${buffer.length} bytes was overwritten`);
    }
}

class Workload {
    constructor(ratePerS, poolBytes) {
        this.ratePerS = ratePerS;
        this.poolBytes = poolBytes;
        this.random = makeRandom(2463534242);
        this.wheel = Array.from({ length: WHEEL_MS }, () => []);
        this.nowMs = 0;
        this.allocated = 0;
        this.freed = 0;
    }

    between([from, to]) {
        return from + Math.floor(this.random() * (to - from + 1));
    }

    allocateOne() {
        const bytes = this.between([MIN_BYTES, MAX_BYTES]);
        const lifeMs = this.between(this.random() < LONG_SHARE ? LONG_MS : SHORT_MS);
        const buffer = mark(Buffer.allocUnsafe(bytes));
        if (buffer.buffer.byteLength !== (this.poolBytes || bytes)) {
            throw new Error(`a buffer of ${bytes} bytes lies in ${buffer.buffer.byteLength}, with Buffer.poolSize ${this.poolBytes}`);
        }
        this.wheel[(this.nowMs + lifeMs) % WHEEL_MS].push(buffer);
        this.allocated++;
    }

    // One millisecond of work. The slot keeps its capacity: the wheel itself makes no garbage.
    step() {
        this.nowMs++;
        const expired = this.wheel[this.nowMs % WHEEL_MS];
        expired.forEach(checkMark);
        this.freed += expired.length;
        expired.length = 0;
        for (const due = Math.floor((this.nowMs * this.ratePerS) / 1000); this.allocated < due; ) {
            this.allocateOne();
        }
    }

    // What is reachable, and the whole memory behind it: a slice keeps its pool.
    account() {
        const pools = new Set();
        let count = 0;
        let liveBytes = 0;
        for (const buffer of this.wheel.flat()) {
            pools.add(buffer.buffer);
            liveBytes += buffer.length;
            count++;
        }
        if (count !== this.allocated - this.freed) {
            throw new Error(`${count} buffers are live, not ${this.allocated} - ${this.freed}`);
        }
        const pinnedBytes = [...pools].reduce((sum, pool) => sum + pool.byteLength, 0);
        const { arrayBuffers } = process.memoryUsage();
        return { live_buffers: count, live_bytes: liveBytes, pinned_bytes: pinnedBytes, array_buffers_bytes: arrayBuffers };
    }
}

// --- pinpool's own account ------------------------------------------------------------------------

function poolAccount() {
    const tiers = takeDump().filter((record) => record.type === 'tier');
    const sum = (field) => tiers.reduce((total, tier) => total + tier[field], 0);
    return {
        pool_live_bytes: sum('live_bytes'),
        pool_held_bytes: sum('held_bytes'),
        pool_stranded_bytes: sum('stranded_bytes'),
        pool_pinned_blocks: sum('pinned_blocks'),
    };
}

// --- measuring ------------------------------------------------------------------------------------

class MemorySamples {
    constructor() {
        this.rows = [];
    }

    take() {
        this.rows.push(process.memoryUsage());
    }

    average(field) {
        return Math.round(this.rows.reduce((sum, row) => sum + row[field], 0) / this.rows.length);
    }

    max(field) {
        return Math.max(...this.rows.map((row) => row[field]));
    }
}

// Calls step() once for each millisecond that goes by, till endMs of them are done, and afterTurn() now and
// then on the way.
function runPaced(workload, endMs, afterTurn) {
    const startNs = process.hrtime.bigint();
    return new Promise((resolve, reject) => {
        const turn = () => {
            const dueMs = Math.min(endMs, Number((process.hrtime.bigint() - startNs) / 1000000n));
            // A turn is bounded: samples are taken on the way even when there is much to catch up.
            const untilMs = Math.min(dueMs, workload.nowMs + SAMPLE_MS);
            try {
                while (workload.nowMs < untilMs) {
                    workload.step();
                }
                afterTurn();
            } catch (error) {
                reject(error);
                return;
            }
            if (workload.nowMs < endMs) {
                setTimeout(turn, 1);
            } else {
                resolve();
            }
        };
        turn();
    });
}

// Memory and CPU time from steadyFromMs on.
class SteadyPart {
    constructor(workload, steadyFromMs) {
        this.workload = workload;
        this.nextSampleMs = steadyFromMs;
        this.samples = new MemorySamples();
        this.from = undefined;
    }

    look() {
        if (this.workload.nowMs < this.nextSampleMs) {
            return;
        }
        this.from ??= this.moment();
        this.samples.take();
        this.nextSampleMs += SAMPLE_MS;
    }

    moment() {
        const { user, system } = process.cpuUsage();
        return { ns: process.hrtime.bigint(), cpuUs: user + system, allocated: this.workload.allocated };
    }

    figures() {
        const { from, samples } = this;
        const to = this.moment();
        const steadyS = Number(to.ns - from.ns) / 1e9;
        return {
            ops_per_s: Math.round((to.allocated - from.allocated) / steadyS),
            cpu_percent: Number(((to.cpuUs - from.cpuUs) / 1e4 / steadyS).toFixed(2)),
            rss_avg_bytes: samples.average('rss'),
            rss_peak_bytes: samples.max('rss'),
            external_avg_bytes: samples.average('external'),
            array_buffers_avg_bytes: samples.average('arrayBuffers'),
            heap_used_avg_bytes: samples.average('heapUsed'),
            samples: samples.rows.length,
        };
    }
}

async function measure(seconds, steadyFromS, ratePerS) {
    const defaultPoolBytes = Buffer.poolSize;
    const poolBytes = useNodePool(MIN_BYTES);
    const workload = new Workload(ratePerS, poolBytes);
    const steady = new SteadyPart(workload, steadyFromS * 1000);
    await runPaced(workload, seconds * 1000, () => steady.look());
    return {
        ...steady.figures(),
        ...workload.account(),
        ...(isPreloaded() ? poolAccount() : {}),
        node: process.version,
        default_pool_bytes: defaultPoolBytes,
        pool_bytes: poolBytes,
        allocated: workload.allocated,
    };
}

const [seconds, steadyFromS, ratePerS] = process.argv.slice(2).map(Number);
if (!(seconds > steadyFromS && steadyFromS >= 0 && ratePerS > 0)) {
    console.error('usage: measured.js SECONDS STEADY_FROM_S RATE_PER_S');
    process.exit(2);
}
measure(seconds, steadyFromS, ratePerS).then(
    (figures) => fs.writeSync(1, `${JSON.stringify(figures)}\n`),
    (error) => {
        console.error(`mixed-lifetimes: ${error.message}`);
        process.exit(1);
    },
);
