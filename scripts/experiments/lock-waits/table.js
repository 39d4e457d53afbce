// SPDX-License-Identifier: MIT
//
// The tables of lock-waits: waits for mmap_lock of worker threads beside processes, and the system
// calls that come with them, from the traced run beside each run.
//
//   node table.js DIR
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { readComparisons, runTable, median, sizeName, count, number, table, about } = require('../tables.js');
const { sizesOf, programOf, changeOf, changeText } = require('../readfile_tables.js');

const KINDS = ['workers', 'processes'];
const LOCKS = ['write', 'read', 'both'];
const CALLS = ['mmap', 'munmap', 'madvise', 'brk', 'mprotect'];

// nodejs/node#63597: workers wait ~17x longer per acquisition than processes; with a pool that covers the
// size their cumulative wait falls ~2.5x. It does not say which of the two sides of the lock it counts.
const SOURCE_RATIO = 17;
const SOURCE_FALL = 2.5;
const SOURCE_POOL_BYTES = 65536;

// --- figures --------------------------------------------------------------------------------------

// The reads of the traced run itself: tracing slows it, so it reads less than the one that is timed.
function tracedReads(comparison, run) {
    const file = path.join(comparison.folderOf(run), 'traced-output');
    const output = fs.readFileSync(file, 'utf8');
    const match = /"all_reads":(\d+)/.exec(output);
    if (match === null) {
        throw new Error(`${file}: no reads there`);
    }
    return Number(match[1]);
}

// One traced run. Start and end of its processes are in it, as in the waits.
function tracedFigures(comparison, run) {
    if (!('lock_write_acquisitions' in run.values)) {
        throw new Error(`${comparison.dir}: run ${run.run} has no acquisitions of mmap_lock: it was not traced`);
    }
    const side = (lock) => ({
        acquisitions: run.values[`lock_${lock}_acquisitions`],
        waits: run.values[`lock_${lock}_waits`],
        waitS: run.values[`lock_${lock}_wait_s`],
    });
    const [write, read] = [side('write'), side('read')];
    const both = Object.fromEntries(Object.keys(write).map((name) => [name, write[name] + read[name]]));
    return { round: run.round, reads: tracedReads(comparison, run), locks: { write, read, both }, calls: run.values };
}

// All measured runs of a comparison, by arm.
function tracedRuns(comparison) {
    return new Map(comparison.arms.map((arm) => [arm, comparison.runs(arm).map((run) => tracedFigures(comparison, run))]));
}

function middle(runs, figure) {
    return median(runs.map(figure));
}

const perAcquisitionUs = (lock) => (run) => (run.locks[lock].waitS * 1e6) / run.locks[lock].acquisitions;
const perMillionReadsS = (lock) => (run) => (run.locks[lock].waitS * 1e6) / run.reads;
const perThousandReads = (lock, name) => (run) => (run.locks[lock][name] * 1e3) / run.reads;

// How many times less an arm waits than the baseline of the same round: median, least, most.
function falls(baseline, runs, figure) {
    const of = new Map(baseline.map((run) => [run.round, figure(run)]));
    const ratios = runs.filter((run) => of.has(run.round)).map((run) => of.get(run.round) / figure(run));
    return { middle: median(ratios), least: Math.min(...ratios), most: Math.max(...ratios) };
}

function times(value) {
    return Number.isFinite(value) ? `${value.toFixed(value < 9.95 ? 1 : 0)}x` : '-';
}

function fallText({ middle: value, least, most }) {
    return Number.isFinite(value) ? `${times(value)} (${times(least)}-${times(most)})` : '-';
}

// --- tables ---------------------------------------------------------------------------------------

// Does the arm's largest pool cover what the source's pool of 64 KiB covers, and no more?
function isLikeSource(comparison, arm) {
    const pools = comparison.spec(arm).split(':')[0].split(',');
    const last = /^(\d+)k$/.exec(pools.at(-1));
    return last !== null && Number(last[1]) * 1024 === SOURCE_POOL_BYTES;
}

function perAcquisitionTable(arms, figures, baseline) {
    const rows = arms.flatMap((arm) =>
        LOCKS.map((lock) => {
            const [workers, processes] = KINDS.map((kind) => middle(figures.get(kind).get(arm), perAcquisitionUs(lock)));
            const source = arm === baseline ? `~${SOURCE_RATIO}x` : '';
            return [arm, lock, number(workers), number(processes), times(workers / processes), source];
        }),
    );
    return table(['arm', 'lock', 'workers us', 'processes us', 'ratio', 'source'], rows, [0, 1]);
}

function cumulativeTable(arms, figures, baseline, comparison) {
    const rows = arms.flatMap((arm) =>
        LOCKS.map((lock) => {
            const cells = KINDS.flatMap((kind) => {
                const runs = figures.get(kind).get(arm);
                const fall = falls(figures.get(kind).get(baseline), runs, perMillionReadsS(lock));
                return [
                    number(middle(runs, perMillionReadsS(lock)), 3),
                    arm === baseline ? '' : fallText(fall),
                    number(middle(runs, perThousandReads(lock, 'acquisitions')), 1),
                    number(middle(runs, perThousandReads(lock, 'waits')), 1),
                ];
            });
            return [arm, lock, ...cells, arm !== baseline && isLikeSource(comparison, arm) ? `~${SOURCE_FALL}x` : ''];
        }),
    );
    const of = (kind) => [`${kind} s`, 'falls', 'taken', 'waited'];
    return table(['arm', 'lock', ...of('workers'), ...of('proc.'), 'source'], rows, [0, 1]);
}

function callsTable(arms, comparisons, figures, bytes) {
    const rows = arms.flatMap((arm) =>
        KINDS.map((kind) => {
            const runs = figures.get(kind).get(arm);
            const comparison = comparisons.get(kind);
            return [
                arm,
                kind,
                count(comparison.median(arm, `reads_${bytes}`)),
                arm === comparison.baseline ? '' : changeText(changeOf(comparison, arm, bytes)),
                count(middle(runs, (run) => run.reads)),
                ...CALLS.map((name) => number(middle(runs, (run) => (run.calls[`calls_${name}`] * 1e3) / run.reads), 1)),
            ];
        }),
    );
    return table(['arm', 'readers', 'reads/s', `against ${arms[0]}`, 'traced reads', ...CALLS], rows, [0, 1]);
}

// --- sentences ------------------------------------------------------------------------------------

function beside(value, source) {
    return value > source ? 'more than' : 'less than';
}

function ratioSentence(figures, baseline) {
    const ratio = (lock) => {
        const [workers, processes] = KINDS.map((kind) => middle(figures.get(kind).get(baseline), perAcquisitionUs(lock)));
        return workers / processes;
    };
    const both = ratio('both');
    return `${baseline}: workers wait ${times(both)} as long for each acquisition as processes (write ${times(ratio('write'))}, read ${times(ratio('read'))}), ${beside(both, SOURCE_RATIO)} the ~${SOURCE_RATIO}x of the source.`;
}

function fallSentence(figures, baseline, arm) {
    const fall = falls(figures.get('workers').get(baseline), figures.get('workers').get(arm), perMillionReadsS('both'));
    return `${arm}: the wait of workers for each read is ${fall.middle >= 1 ? `${times(fall.middle)} smaller` : `${times(1 / fall.middle)} larger`} than with ${baseline}, ${beside(fall.middle, SOURCE_FALL)} the fall of ~${SOURCE_FALL}x of the source.`;
}

function main(out) {
    const comparisons = readComparisons(out, KINDS);
    const missing = KINDS.find((kind) => !comparisons.has(kind));
    if (missing !== undefined) {
        throw new Error(`${out}: the comparison of ${missing} is not there; --resume goes on with it`);
    }
    const workers = comparisons.get('workers');
    const { baseline, arms } = workers;
    const [bytes] = sizesOf(workers);
    const figures = new Map([...comparisons].map(([kind, comparison]) => [kind, tracedRuns(comparison)]));

    const { readers, text } = programOf(workers);
    console.log(`# Waits for mmap_lock, ${readers} worker threads and ${readers} processes that read ${sizeName(bytes)} (nodejs/node#63597)\n`);
    console.log(text);
    for (const [kind, comparison] of comparisons) {
        console.log(`${kind}: ${about(comparison)}`);
    }
    console.log('\n## Time for each acquisition: medians of the rounds\n');
    console.log(perAcquisitionTable(arms, figures, baseline));
    console.log('\nFrom asking for the lock to having it, some 0.1 to 0.3 us of tracing included. The source does not say which side');
    console.log(`of the lock it means.\n\n${ratioSentence(figures, baseline)}`);
    console.log('\n## All waits together: seconds for a million reads\n');
    console.log(cumulativeTable(arms, figures, baseline, workers));
    console.log(`\nfalls: how many times less than ${baseline} in the same round; median, smallest and largest round. taken, waited:`);
    console.log('acquisitions, and those of 1 us or more, for 1000 reads. Whole runs: start and end of the processes are in them.\n');
    for (const arm of arms.filter((name) => name !== baseline && isLikeSource(workers, name))) {
        console.log(fallSentence(figures, baseline, arm));
    }
    console.log('\n## Reads, and system calls for 1000 reads\n');
    console.log(callsTable(arms, comparisons, figures, bytes));
    console.log('\nreads/s and the change (median of the rounds, 95 % interval) are of the runs that are not traced.');
}

runTable(main);
