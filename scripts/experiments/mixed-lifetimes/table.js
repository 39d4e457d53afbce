// SPDX-License-Identifier: MIT
//
// The tables of mixed-lifetimes: memory in the steady part of each arm, beside what nodejs/node#67235
// reports for the two sizes of the pool inside Node, and what the live buffers pin.
//
//   node table.js DIR
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { readComparisons, runTable, median, percent, number, sizeName, table, about } = require('../tables.js');

const FOLDERS = ['node', 'node-64k'];

// Of its two runs with each size; in MB, as are our figures beside it.
const SOURCE = {
    js8k: { rss: 191.9, rssMax: 211.4, external: 21.9 },
    js64k: { rss: 228.8, rssMax: 257.3, external: 34.8 },
};
const SOURCE_CHANGE = { rss: 20, external: 60 };

// heapUsed counts as flat when it changes by less than this.
const FLAT_PERCENT = 10;
// Who did this share of the buffers in time kept the pace.
const PACE_SHARE = 0.98;

function mb(bytes, digits = 1) {
    return Number.isFinite(bytes) ? (bytes / 1e6).toFixed(digits) : '-';
}

// What the program printed in each measured run of an arm.
function printed(comparison, arm) {
    return comparison.runs(arm).map((run) => {
        const lines = fs.readFileSync(path.join(comparison.folderOf(run), 'output'), 'utf8').trimEnd().split('\n');
        return JSON.parse(lines.at(-1));
    });
}

function steadyTable(comparison) {
    const header = ['arm', 'ops/s', 'CPU %', 'RSS', 'source', 'RSS max', 'source', 'external', 'source', 'arrayBuffers', 'heapUsed'];
    const rows = comparison.arms.map((arm) => {
        const source = SOURCE[arm] ?? {};
        return [
            arm,
            number(comparison.median(arm, 'ops_per_s'), 0),
            number(comparison.median(arm, 'cpu_percent'), 1),
            mb(comparison.median(arm, 'rss_avg_bytes')),
            number(source.rss, 1),
            mb(comparison.median(arm, 'rss_peak_bytes')),
            number(source.rssMax, 1),
            mb(comparison.median(arm, 'external_avg_bytes')),
            number(source.external, 1),
            mb(comparison.median(arm, 'array_buffers_avg_bytes')),
            mb(comparison.median(arm, 'heap_used_avg_bytes')),
        ];
    });
    return table(header, rows);
}

// At the end of a run. In an arm of pinpool the blocks are its own, else they are those of the pool in Node.
function accountTable(comparison) {
    const header = ['arm', 'live', 'pinned in JS', 'uncollected', 'pinpool: live', 'stranded', 'held', 'pinned blocks', 'kept / live'];
    const rows = comparison.arms.map((arm) => {
        const runs = printed(comparison, arm);
        const of = (field) => median(runs.map((run) => run[field] ?? NaN));
        const held = of('pool_held_bytes');
        const kept = runs.map((run) => (run.pool_held_bytes ?? run.array_buffers_bytes) / run.live_bytes);
        return [
            arm,
            mb(of('live_bytes')),
            mb(of('pinned_bytes')),
            mb(median(runs.map((run) => run.array_buffers_bytes - run.pinned_bytes))),
            mb(of('pool_live_bytes')),
            mb(of('pool_stranded_bytes')),
            mb(held),
            number(of('pool_pinned_blocks'), 0),
            number(median(kept), 1),
        ];
    });
    return table(header, rows);
}

// The change of a figure from one arm to another, in per cent of each round: [median, least, largest].
function changeBetween(old, now) {
    const changes = [...now].filter(([round]) => old.has(round)).map(([round, value]) => (value / old.get(round) - 1) * 100);
    return changes.length === 0 ? [NaN, NaN, NaN] : [median(changes), Math.min(...changes), Math.max(...changes)];
}

// pinpool's pools are no part of what Node calls external; what they hold is what compares to it.
function poolBytes(comparison, arm) {
    const rounds = [...comparison.values(arm, 'rss_avg_bytes').keys()];
    const held = printed(comparison, arm).map((run, i) => [rounds[i], run.pool_held_bytes]);
    return held.every(([, bytes]) => bytes === undefined) ? comparison.values(arm, 'external_avg_bytes') : new Map(held);
}

const PAIRS = [['js8k', 'js64k'], ['8k', '64k'], ['js8k', '8k'], ['js64k', '64k'], ['off', '8k,64k']];

function pairs(comparisons) {
    const all = [];
    for (const comparison of comparisons) {
        for (const [from, to] of PAIRS.filter((pair) => pair.every((arm) => comparison.arms.includes(arm)))) {
            const change = (metric) => changeBetween(comparison.values(from, metric), comparison.values(to, metric));
            all.push({
                version: printed(comparison, from)[0]?.node,
                from,
                to,
                rss: change('rss_avg_bytes'),
                pools: changeBetween(poolBytes(comparison, from), poolBytes(comparison, to)),
                heapUsed: change('heap_used_avg_bytes'),
                cpu: change('cpu_percent'),
            });
        }
    }
    return all;
}

function changeText([middle, least, largest]) {
    return Number.isFinite(middle) ? `${percent(middle, 0)} (${least.toFixed(0)} to ${largest.toFixed(0)})` : '-';
}

function changeTable(all) {
    const header = ['Node', 'from', 'to', 'RSS', 'source', 'external or held', 'source', 'heapUsed', 'CPU'];
    const rows = all.map(({ version, from, to, rss, pools, heapUsed, cpu }) => {
        const source = from === 'js8k' && to === 'js64k' ? SOURCE_CHANGE : {};
        return [version, from, to, changeText(rss), percent(source.rss, 0), changeText(pools), percent(source.external, 0), changeText(heapUsed), changeText(cpu)];
    });
    return table(header, rows, [0, 1, 2]);
}

function direction([, least, largest]) {
    return least > 0 ? 'larger in every round' : largest < 0 ? 'smaller in every round' : 'larger in some rounds and smaller in others';
}

function sourceSentence({ version, rss, pools, heapUsed }) {
    const isConfirmed = rss[1] > 0 && pools[1] > 0;
    const heap = `heapUsed ${percent(heapUsed[0], 0)}, ${Math.abs(heapUsed[0]) < FLAT_PERCENT ? 'flat' : 'not flat'}`;
    return (
        `- ${version}, from 8 to 64 KiB inside Node: RSS ${direction(rss)}, external ${direction(pools)}, ${heap}.\n` +
        `  The source's direction is ${isConfirmed ? '' : 'not '}confirmed.`
    );
}

function paceSentence(comparison, ratePerS) {
    const slow = comparison.arms.filter((arm) => !(comparison.median(arm, 'ops_per_s') >= PACE_SHARE * ratePerS));
    return slow.length === 0 ? 'Every arm kept the pace: memory is compared at equal work.' : `Did not keep the pace, so that its memory is not at equal work: ${slow.join('; ')}.`;
}

function main(out) {
    const comparisons = [...readComparisons(out, FOLDERS).values()];
    console.log('# Mixed lifetimes in one pool (nodejs/node#67235)');
    for (const comparison of comparisons) {
        const run = printed(comparison, comparison.baseline)[0];
        const [seconds, steadyFromS, ratePerS] = comparison.result.command.slice(-3);
        console.log(`\n## Node ${run.node}, its own pool of ${sizeName(run.default_pool_bytes)}\n`);
        console.log(about(comparison));
        console.log(`${ratePerS} buffers per second for ${seconds} s; averages and maximum from ${steadyFromS} s on. In MB of 10^6 bytes, as in the source.\n`);
        console.log(`${steadyTable(comparison)}\n`);
        console.log(`${paceSentence(comparison, Number(ratePerS))}\n`);
        console.log(`At the end of the run, in MB:\n`);
        console.log(accountTable(comparison));
    }
    console.log('\njs8k, js64k: Buffer.poolSize; the other arms have no pool in Node, so that every buffer reaches malloc. live: buffers');
    console.log('that the program still refers to. pinned in JS: the ArrayBuffers behind them. uncollected: arrayBuffers less that, which');
    console.log('waits for the garbage collector. pinpool: its own account; there, live includes what is uncollected, and held also what is');
    console.log('empty and kept for reuse. kept / live: held, or without pinpool arrayBuffers, for one byte of live buffers.');
    const all = pairs(comparisons);
    if (all.length > 0) {
        console.log('\n## From one pool to another\n');
        console.log(changeTable(all));
        console.log('\nChange: median of the rounds (least to largest). In an arm of pinpool, what it holds at the end stands in for external.\n');
        console.log(all.filter(({ from, to }) => from === 'js8k' && to === 'js64k').map(sourceSentence).join('\n'));
    }
    console.log('\nThe source gives lifetimes and duration only; sizes, pace and the share of long lives are ours. Directions compare, MB do not.');
}

runTable(main);
