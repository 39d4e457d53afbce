// SPDX-License-Identifier: MIT
//
// The other half of scripts/node-readfile: proves runs and makes tables of them.
//
//   node node-readfile-report.js prove RESULT.json KIND LIBRARY POOLS POLICY DUMP_DIR [LOCKS.json]
//   node node-readfile-report.js table RUNS.csv
//   node node-readfile-report.js locks RUNS.csv
//
// prove looks at one run of node-readfile.js. It prints its figures as one line for RUNS.csv, in the
// order of the columns below, or says why the run does not belong to its arm and exits 1. RUNS.csv
// starts with `# name value` lines, then has the names of its columns; the arm is in quotes.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const RUN_COLUMNS = ['reads_per_s', 'window_reads', 'window_ns', 'window_cpu_us', 'all_reads', 'peak_rss_kib'];
const LOCK_COLUMNS = ['acquired', 'waited', 'total_ns', 'p50_ns', 'p99_ns', 'max_ns'];

class Refusal extends Error {}

function refuse(reason) {
    throw new Refusal(reason);
}

// --- proof ---------------------------------------------------------------------------------------

// Anything mapped under such a name answers malloc, or wants to.
const ALLOCATORS = /(pinpool|[a-z]malloc|hoard|mesh|scudo)[^/]*\.so/;

function proveLibraries(run, library) {
    const allocators = run.libraries.filter((mapped) => ALLOCATORS.test(path.basename(mapped)));
    const expected = library === '' ? [] : [library];
    if (run.preload !== library) {
        refuse(`LD_PRELOAD was '${run.preload}' in the process, not '${library}'`);
    }
    if (allocators.join(' ') !== expected.join(' ')) {
        refuse(`allocators mapped in the process: ${allocators.join(' ') || 'none'}; should be: ${library || 'none'}`);
    }
}

function sizeToBytes(text) {
    return Number(text.slice(0, -1)) * { k: 1024, m: 1024 * 1024 }[text.at(-1)];
}

// The requests that the reads made of malloc, at the least. Node carves buffers below half of its own
// pool from it, rounded up to 8 bytes, and asks malloc for a pool at a time.
function expectedRequests(run) {
    if (run.bytes < run.pool_bytes >>> 1) {
        return { bytes: run.pool_bytes, count: Math.floor((run.all_reads * run.bytes) / run.pool_bytes) };
    }
    return { bytes: run.bytes, count: run.all_reads };
}

// The one dump of this process, complete.
function readDump(run, dir) {
    const names = fs.readdirSync(dir).filter((name) => name.startsWith(`pinpool.${run.pid}.`) && name.endsWith('.jsonl'));
    if (names.length !== 1) {
        refuse(`${names.length} dumps by process ${run.pid} instead of one: the library was not active in it`);
    }
    const records = fs.readFileSync(path.join(dir, names[0]), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
    if (records[0].type !== 'dump' || records[0].pid !== run.pid || records.at(-1).type !== 'end') {
        refuse(`${names[0]} is not a complete dump of process ${run.pid}`);
    }
    return records;
}

function proveSettings(dump, wanted) {
    for (const [name, value] of Object.entries(wanted)) {
        if (value !== '' && String(dump.settings[name]) !== value) {
            refuse(`the library ran with ${name}=${dump.settings[name]}, not ${value}`);
        }
    }
}

function carvedSlices(records) {
    const carved = records.filter((record) => record.type === 'counter' && record.name === 'carved_slices');
    return new Map(carved.map((record) => [record.block_bytes, record.value]));
}

// Half is far more than Node's own requests come to, and leaves room for what it may keep to itself.
function proveCarved(run, carved, pools) {
    const requests = expectedRequests(run);
    const block = pools.split(',').map(sizeToBytes).find((bytes) => requests.bytes <= bytes / 2);
    if (block !== undefined && (carved.get(block) ?? 0) < requests.count / 2) {
        refuse(`${carved.get(block) ?? 0} slices carved in blocks of ${block} for ${requests.count} requests of ${requests.bytes}`);
    }
    if (![...carved.values()].some((count) => count > 0)) {
        refuse('not one slice was carved');
    }
}

function provePinpool(run, pools, policy, dumpDir) {
    const records = readDump(run, dumpDir);
    proveSettings(records[0], { PINPOOL_POOLS: pools, PINPOOL_POLICY: policy, PINPOOL_OFF: '0' });
    proveCarved(run, carvedSlices(records), pools);
}

// The control arm: loaded, but nothing carved.
function proveOff(run, dumpDir) {
    const records = readDump(run, dumpDir);
    proveSettings(records[0], { PINPOOL_OFF: '1' });
    if ([...carvedSlices(records).values()].some((count) => count > 0)) {
        refuse('slices were carved although PINPOOL_OFF=1');
    }
}

function prove([result, kind, library, pools, policy, dumpDir, locksFile]) {
    const run = JSON.parse(fs.readFileSync(result, 'utf8'));
    proveLibraries(run, library);
    if (kind === 'pinpool') {
        provePinpool(run, pools, policy, dumpDir);
    } else if (kind === 'off') {
        proveOff(run, dumpDir);
    }
    const row = { ...run, reads_per_s: ((run.window_reads * 1e9) / run.window_ns).toFixed(1) };
    const fields = RUN_COLUMNS.map((column) => row[column]);
    if (locksFile !== undefined) {
        const locks = JSON.parse(fs.readFileSync(locksFile, 'utf8'));
        for (const side of ['write', 'read']) {
            fields.push(...LOCK_COLUMNS.map((column) => locks[side][column]));
        }
    }
    console.log(fields.join(','));
}

// --- statistics ----------------------------------------------------------------------------------

function median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// Bounds of the median with at least 95 % confidence, whatever the distribution: the k-th smallest and
// largest value, k the largest with 2 P(Binomial(n, 1/2) < k) <= 0.05. Fewer than 6 values have none.
function medianInterval(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const n = sorted.length;
    let k = 0;
    let term = 0.5 ** n;
    for (let tail = term; 2 * tail <= 0.05; tail += term) {
        k++;
        term *= (n - k + 1) / k;
    }
    return k === 0 ? null : [sorted[k - 1], sorted[n - k]];
}

// --- tables --------------------------------------------------------------------------------------

function readRuns(file) {
    const lines = fs.readFileSync(file, 'utf8').trimEnd().split('\n');
    const about = {};
    while (lines.length > 0 && lines[0].startsWith('#')) {
        const [, name, value] = /^# (\S+) (.*)$/.exec(lines.shift());
        about[name] = value;
    }
    const columns = (lines.shift() ?? '').split(',');
    const runs = lines.map((line) => {
        const fields = line.match(/"[^"]*"|[^,]+/g);
        return Object.fromEntries(columns.map((column, i) => [column, column === 'arm' ? fields[i].slice(1, -1) : Number(fields[i])]));
    });
    return { about, runs };
}

// The runs of one arm at one size, beside the baseline's of the same rounds.
function pairs(runs, baseline, arm, bytes) {
    const of = (name) => new Map(runs.filter((run) => run.arm === name && run.bytes === bytes).map((run) => [run.round, run]));
    const base = of(baseline);
    return [...of(arm)].filter(([round]) => base.has(round)).map(([round, run]) => ({ run, base: base.get(round) }));
}

function unique(values) {
    return [...new Set(values)];
}

function sizeName(bytes) {
    return bytes % 1048576 === 0 ? `${bytes / 1048576} MiB` : bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} B`;
}

function percent(ratio) {
    const change = (ratio - 1) * 100;
    return `${change < 0 ? '' : '+'}${change.toFixed(1)} %`;
}

function interval(values, show) {
    const bounds = medianInterval(values);
    return bounds === null ? '(too few rounds)' : `${show(bounds[0])} .. ${show(bounds[1])}`;
}

// The first columns to the left, figures to the right.
function printTable(header, rows, leftColumns) {
    const widths = header.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i].length)));
    for (const row of [header, ...rows]) {
        const cells = row.map((cell, i) => (leftColumns.includes(i) ? cell.padEnd(widths[i]) : cell.padStart(widths[i])));
        console.log(cells.join('  ').trimEnd());
    }
}

function printAbout(about, what) {
    console.log(`${what}; Node ${about.node}, ${about.workers} workers, ${about.cpus} CPUs, Linux ${about.kernel}, glibc ${about.glibc}`);
    console.log(`${about.seconds} s a run after ${about.warmup} s of warm-up, fresh process each; arms interleaved, order by seed ${about.seed}`);
    if (about.flags) {
        console.log(`every arm: node ${about.flags}`);
    }
    console.log('');
}

// The change that the pull request reports, from its pool of 8 KiB to one of 64 KiB.
const PULL_REQUEST = new Map([
    [512, '+7 %'],
    [2048, '~'],
    [4096, '+10 %'],
    [8192, '+26 %'],
    [16384, '+23 %'],
    [65536, '~'],
    [1048576, '~'],
]);

// What this project asks of the arm 64k, as a ratio to the baseline.
const TARGET_ARM = '64k';
const TARGET_ROUNDS = 10;
function targetRatio(bytes) {
    return bytes === 8192 || bytes === 16384 ? 1.2 : 0.97;
}

function verdict(ratio, bytes, rounds) {
    const target = targetRatio(bytes);
    const word = ratio >= target ? 'met' : 'missed';
    return `${percent(target)}: ${word}${rounds < TARGET_ROUNDS ? ` (${rounds} of ${TARGET_ROUNDS} rounds)` : ''}`;
}

function speedRow(runs, baseline, arm, bytes) {
    const matched = pairs(runs, baseline, arm, bytes);
    if (matched.length === 0) {
        return null;
    }
    const ratios = matched.map(({ run, base }) => run.reads_per_s / base.reads_per_s);
    const isBaseline = arm === baseline;
    const isTarget = arm === TARGET_ARM && baseline === 'none';
    return [
        sizeName(bytes),
        arm,
        Math.round(median(matched.map(({ run }) => run.reads_per_s))).toLocaleString('en'),
        isBaseline ? '' : percent(median(ratios)),
        isBaseline ? '' : interval(ratios, percent),
        isTarget ? (PULL_REQUEST.get(bytes) ?? '') : '',
        isTarget ? verdict(median(ratios), bytes, matched.length) : '',
        median(matched.map(({ run }) => run.window_cpu_us / run.window_reads)).toFixed(2),
        (median(matched.map(({ run }) => run.peak_rss_kib)) / 1024).toFixed(0),
    ];
}

function table([file]) {
    const { about, runs } = readRuns(file);
    const arms = unique(about.arms.split(' '));
    const rows = [];
    for (const bytes of unique(runs.map((run) => run.bytes))) {
        rows.push(...arms.map((arm) => speedRow(runs, arms[0], arm, bytes)).filter((row) => row !== null));
    }
    printAbout(about, 'fs.readFileSync(file) on tmpfs');
    printTable(['file', 'arm', 'reads/s', `vs ${arms[0]}`, '95 % interval', 'PR', 'target', 'CPU us/read', 'peak RSS MiB'], rows, [0, 1, 6]);
    console.log(`\nvs ${arms[0]}: median of the ratios within a round; reads/s, CPU of all threads, peak RSS: medians.`);
    console.log('PR: what nodejs/node pull request 63597 reports for a pool of 64 KiB against 8 KiB, inside Node.');
}

// --- locks ---------------------------------------------------------------------------------------

const LOCK_TARGET = 1 / 5;

function sum(runs, column) {
    return runs.reduce((total, run) => total + run[column], 0);
}

function lockRow(runs, baseline, arm, bytes, side) {
    const matched = pairs(runs, baseline, arm, bytes);
    if (matched.length === 0) {
        return null;
    }
    const own = matched.map(({ run }) => run);
    const other = matched.map(({ base }) => base);
    const reads = sum(own, 'all_reads');
    const waitNs = sum(own, `${side}_total_ns`);
    const ratio = waitNs / sum(other, `${side}_total_ns`);
    const ratioPerRead = ratio / (reads / sum(other, 'all_reads'));
    const isBaseline = arm === baseline;
    const perRound = matched.map(({ run, base }) => run[`${side}_total_ns`] / base[`${side}_total_ns`]);
    const isTarget = arm === TARGET_ARM && baseline === 'none' && side === 'write' && bytes === 16384;
    return [
        sizeName(bytes),
        side,
        arm,
        (reads / 1e6).toFixed(2),
        sum(own, `${side}_acquired`).toLocaleString('en'),
        sum(own, `${side}_waited`).toLocaleString('en'),
        (waitNs / 1e9).toFixed(3),
        isBaseline ? '' : ratio.toFixed(3),
        isBaseline ? '' : interval(perRound, (bound) => bound.toFixed(3)),
        (waitNs / 1e6 / (reads / 1e6)).toFixed(0),
        isBaseline ? '' : ratioPerRead.toFixed(3),
        (median(own.map((run) => run[`${side}_p50_ns`])) / 1e3).toFixed(2),
        (median(own.map((run) => run[`${side}_p99_ns`])) / 1e3).toFixed(1),
        isTarget ? `<= ${LOCK_TARGET.toFixed(3)}: ${ratio <= LOCK_TARGET ? 'met' : 'missed'}` : '',
    ];
}

function locks([file]) {
    const { about, runs } = readRuns(file);
    const arms = unique(about.arms.split(' '));
    const rows = [];
    for (const bytes of unique(runs.map((run) => run.bytes))) {
        for (const side of ['write', 'read']) {
            rows.push(...arms.map((arm) => lockRow(runs, arms[0], arm, bytes, side)).filter((row) => row !== null));
        }
    }
    printAbout(about, 'waits on mmap_lock under fs.readFileSync(file) on tmpfs');
    const header = ['file', 'lock', 'arm', 'M reads', 'acquired', 'waited', 'wait s', `vs ${arms[0]}`, '95 % interval'];
    printTable([...header, 'ms/M reads', `vs ${arms[0]}`, 'p50 us', 'p99 us', 'target'], rows, [0, 1, 2, 13]);
    console.log('\nWhole processes, start and end included, summed over the rounds. waited: acquisitions of 1 us and more; wait');
    console.log('s: time of all acquisitions; the interval is of the ratio within a round; p50, p99 of all acquisitions: medians.');
    console.log('Tracing costs time at every acquisition, so these runs say nothing about throughput.');
}

// --- main ----------------------------------------------------------------------------------------

const [command, ...operands] = process.argv.slice(2);
try {
    ({ prove, table, locks })[command](operands);
} catch (error) {
    if (!(error instanceof Refusal)) {
        throw error;
    }
    console.error(error.message);
    process.exit(1);
}
