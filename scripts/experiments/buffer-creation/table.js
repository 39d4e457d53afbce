// SPDX-License-Identifier: MIT
//
// The tables of buffer-creation: Node's versions and the capacity of V8's young generation, types of
// buffers, and what the pools hold; beside them the figures of nodejs/node#61967 and of nodejs/node#8302, "buffer:
// directly use ArrayBuffer as the pool".
//
//   node table.js DIR
'use strict';

const { readComparisons, runTable, median, percent, change, sizeName, mib, count, number, table, about } = require('../tables.js');

const FLAG = '--scavenger-max-new-space-capacity-mb';

// nodejs/node#61967, old=v22.20.0, type slow-allocUnsafe: improvement in % and confidence, by length.
const VERSIONS_SOURCE = {
    'v24.14.0': {
        10: [-12.53, '**'],
        1024: [1.8, ''],
        4096: [1.07, ''],
        8192: [-3.24, ''],
        16384: [-16.48, '***'],
        32768: [-21.39, '***'],
        65536: [-28.35, '***'],
    },
    'v25.7.0': {
        10: [-9.31, '*'],
        1024: [-1.33, ''],
        4096: [-1.99, ''],
        8192: [1.59, ''],
        16384: [-13.53, '***'],
        32768: [-19.91, '***'],
        65536: [-26.06, '***'],
    },
};
const SOURCE_CAPACITY = '32'; // the default of those versions
const SLOW_FROM = 16384; // the lengths that the source finds slower with ***
const SLOW_TO = 65536;

// nodejs/node#8302: improvement in % and confidence, by type and length.
const TYPES_SOURCE = {
    'buffer': { 10: [59.42, '***'], 1024: [47.11, '***'], 2048: [36.34, '***'], 4096: [4.9, ''], 8192: [5.08, ''] },
    'fast_alloc': { 10: [-6.43, ''], 1024: [-3.41, ''], 2048: [-4.67, ''], 4096: [-2.11, ''], 8192: [-1.16, ''] },
    'fast_alloc_fill': { 10: [-2.96, ''], 1024: [1.11, ''], 2048: [-0.15, ''], 4096: [-0.29, ''], 8192: [0.4, ''] },
    'fast_allocUnsafe': { 10: [33.89, '***'], 1024: [24.37, '***'], 2048: [20.13, '***'], 4096: [3.11, ''], 8192: [5.16, ''] },
    'slow': { 10: [-1.48, ''], 1024: [4.81, ''], 2048: [4.35, ''], 4096: [0.95, ''], 8192: [2.57, ''] },
    'slow_allocUnsafe': { 10: [0.04, ''], 1024: [1.28, ''], 2048: [1.13, ''], 4096: [3.74, ''], 8192: [-3.19, ''] },
};

// The words of the last table: of the room that pinned blocks have beside the one slice that pins each, how
// much is live.
const GC_HELD_FROM = 0.5;
const POOL_PINNED_TO = 0.25;

// --- reading --------------------------------------------------------------------------------------

// '24.13.1@32-64k' -> its parts
function parseArm(name) {
    const [, version, capacity, allocator] = /^([^@]+)@(\d+|none)-(.+)$/.exec(name);
    return { name, version, capacity, allocator };
}

// Without the second baseline that stands in where there is nothing to compare.
function armsOf(comparison) {
    return comparison.result.arms.filter((arm) => !arm.is_control).map((arm) => parseArm(arm.name));
}

// 'slow_allocUnsafe_1024' -> its parts
function parseMetric(name) {
    const [, what, length] = /^(.+)_(\d+)$/.exec(name);
    return { name, what, length: Number(length) };
}

// Those of the metrics that the experiment defined.
function metricsOf(comparison, pattern) {
    const names = comparison.result.measures.map((measure) => measure.name);
    return names.filter((name) => pattern.test(name)).map(parseMetric);
}

function withStars([improvement, stars]) {
    return `${percent(improvement)} ${stars.padEnd(3)}`;
}

function comparedWithStars(row) {
    return row === undefined ? '-' : withStars([row.improvement_percent, row.confidence]);
}

function accuracy(value) {
    return Number.isFinite(value) ? `±${value.toFixed(2)}%` : '-';
}

// Medians over the rounds of one arm in units of another, each round for itself.
function pairedRatio(comparison, arm, other, metric) {
    const others = comparison.values(other, metric);
    const ratios = [...comparison.values(arm, metric)].filter(([round]) => others.get(round) > 0).map(([round, value]) => value / others.get(round));
    return median(ratios);
}

// The same Node and allocator with the smallest capacity, unless the arm is that one.
function atSmallest(arms, arm) {
    const alike = arms.filter((other) => other.version === arm.version && other.allocator === arm.allocator);
    const [smallest] = alike.sort((a, b) => Number(a.capacity) - Number(b.capacity));
    return smallest.name === arm.name ? undefined : smallest;
}

// --- 1: versions and capacities -------------------------------------------------------------------

function sourceCells(arm, length) {
    const isLike = arm.capacity === SOURCE_CAPACITY;
    return Object.values(VERSIONS_SOURCE).map((rows) => (isLike && rows[length] ? withStars(rows[length]) : '-'));
}

function versionRow(comparison, arms, arm, { name, length }) {
    const row = comparison.comparison(arm.name, name);
    const smallest = atSmallest(arms, arm);
    const toSmallest = smallest ? percent(100 * (pairedRatio(comparison, arm.name, smallest.name, name) - 1)) : '-';
    return [
        sizeName(length),
        `${arm.version}@${arm.capacity}`,
        row.confidence,
        `${row.improvement_percent.toFixed(2)} %`,
        accuracy(row.accuracy95_percent),
        accuracy(row.accuracy99_percent),
        accuracy(row.accuracy999_percent),
        toSmallest,
        ...sourceCells(arm, length),
    ];
}

// How many of the source's slower lengths an arm is slower at.
function slowerSentence(comparison, arm, metrics) {
    const rows = metrics
        .filter(({ length }) => length >= SLOW_FROM && length <= SLOW_TO)
        .map(({ name }) => comparison.comparison(arm.name, name));
    const slower = rows.filter((row) => row.confidence !== '' && row.improvement_percent < 0);
    const three = slower.filter((row) => row.confidence === '***').length;
    const what = `${arm.version}@${arm.capacity} is slower with a star at ${slower.length} of ${rows.length} lengths from 16 to 64 KiB, with *** at ${three}`;
    const source = arm.capacity === SOURCE_CAPACITY ? ' (the source: 3 of 3 with ***)' : '';
    return rows.length === 0 ? [] : [`${what}${source}.`];
}

function versionsTables(comparison) {
    const arms = armsOf(comparison);
    const baseline = parseArm(comparison.baseline);
    const metrics = metricsOf(comparison, /^slow_allocUnsafe_\d+$/);
    const plain = arms.filter((arm) => arm.name !== baseline.name && arm.allocator === baseline.allocator);
    const parts = [`### Node and the capacity of the young generation, old=${baseline.version}@${baseline.capacity}`];
    if (plain.length > 0) {
        const header = ['length', 'new', 'confidence', 'improvement', '(*)', '(**)', '(***)', 'to @8', ...Object.keys(VERSIONS_SOURCE)];
        const rows = metrics.flatMap((metric) => plain.map((arm) => versionRow(comparison, arms, arm, metric)));
        parts.push(
            table(header, rows, [0, 1, 2]),
            [
                `slow-allocUnsafe, every arm ${allocatorText(baseline.allocator)}; new is VERSION@${FLAG}; columns as in Node's compare.R.`,
                'to @8: against the same Node with that flag at 8, median of the rounds.',
                'v24.14.0, v25.7.0: nodejs/node#61967 against v22.20.0, each with the default of the flag, 32.',
                ...plain.flatMap((arm) => slowerSentence(comparison, arm, metrics)),
            ].join('\n'),
        );
    }
    parts.push(allArmsTable(comparison, arms, baseline, metrics), ...noFlagNotes(arms), about(comparison));
    return parts;
}

function allocatorText(allocator) {
    return allocator === 'off' ? 'without preload' : `with ${allocator}`;
}

// Everything against the old Node, so that one sees whether a pool makes good what the version costs.
function allArmsTable(comparison, arms, baseline, metrics) {
    const others = arms.filter((arm) => arm.name !== baseline.name);
    const versions = new Set(others.map((arm) => arm.version));
    const label = (arm) => (versions.size > 1 ? arm.name : `@${arm.capacity} ${arm.allocator}`);
    const rows = metrics.map(({ name, length }) => [
        sizeName(length),
        count(comparison.summary(baseline.name, name).median),
        ...others.map((arm) => comparedWithStars(comparison.comparison(arm.name, name))),
    ]);
    const title = `All arms of ${[...versions].join(', ')} against ${baseline.version}@${baseline.capacity} ${allocatorText(baseline.allocator)}: improvement and confidence`;
    return `${title}\n\n${table(['length', 'old, /s', ...others.map(label)], rows)}`;
}

function noFlagNotes(arms) {
    const versions = new Set(arms.filter((arm) => arm.capacity === 'none').map((arm) => arm.version));
    return [...versions].map((version) => `The V8 of Node ${version} has no ${FLAG}: its arms ran without it, so nothing here tells the effect of the flag on it.`);
}

// --- 2: types -------------------------------------------------------------------------------------

function typeText(what) {
    return what === 'buffer' ? 'buffer()' : what.replaceAll('_', '-');
}

function typesTables(comparison) {
    const baseline = parseArm(comparison.baseline);
    const others = armsOf(comparison).filter((arm) => arm.name !== baseline.name);
    const metrics = metricsOf(comparison, /^(buffer|fast_alloc|fast_alloc_fill|fast_allocUnsafe|slow|slow_allocUnsafe)_\d+$/);
    const source = ({ what, length }) => TYPES_SOURCE[what]?.[length];
    const rows = metrics.map((metric) => [
        typeText(metric.what),
        sizeName(metric.length),
        count(comparison.summary(baseline.name, metric.name).median),
        ...others.flatMap((arm) => {
            const row = comparison.comparison(arm.name, metric.name);
            return [change(row), row.confidence];
        }),
        source(metric) ? withStars(source(metric)) : '-',
    ]);
    const header = ['type', 'length', `${baseline.allocator}, /s`, ...others.flatMap((arm) => [arm.allocator, '']), 'source'];
    return [
        `### Types and lengths, Node ${baseline.version}@${baseline.capacity}`,
        table(header, rows, [0]),
        [
            `Ours: the same Node against itself ${allocatorText(baseline.allocator)}, paired change with its 95 % interval, stars by Welch's t as in compare.R.`,
            'The source compares two Nodes, whose own pool was a Buffer before and an ArrayBuffer after: what an object over a part of the',
            'pool costs in JavaScript. Its starred rows are those that pool served; no malloc is the cause of its +59, +47, +24 %.',
            "Below 1025 bytes pinpool takes nothing; fast-allocUnsafe below 4 KiB comes from Node's own pool, 8 KiB from malloc now and then.",
            ...typesSentences(comparison, others, metrics),
        ].join('\n'),
        about(comparison),
    ];
}

// By verdict: which rows, of how many, an arm is better and worse in.
function typesSentences(comparison, others, metrics) {
    return others.map((arm) => {
        const withVerdict = (verdict) =>
            metrics.filter(({ name }) => comparison.comparison(arm.name, name).verdict === verdict).length;
        return `${arm.allocator}: better in ${withVerdict('better')}, worse in ${withVerdict('worse')} of ${metrics.length} rows (pinpool ab's verdict, corrected for their number).`;
    });
}

// --- 3: what the pools hold -----------------------------------------------------------------------

// The means of one run, by round, and what follows from them; then medians over the rounds.
function accountOf(comparison, arm, length) {
    const byRound = (figure) => comparison.values(arm.name, `${figure}_${length}`);
    const rounds = [...byRound('live_bytes').keys()];
    const middle = (of) => median(rounds.map(of).filter(Number.isFinite));
    const at = (figure) => (round) => byRound(figure).get(round);
    const ofHeld = (figure) => middle((round) => (100 * at(figure)(round)) / at('held_bytes')(round));
    const slices = middle(at('slices_per_block'));
    const room = middle(at('room_per_block'));
    return {
        live: middle(at('live_bytes')),
        held: middle(at('held_bytes')),
        ratio: middle((round) => at('held_bytes')(round) / at('live_bytes')(round)),
        strandedPercent: ofHeld('stranded_bytes'),
        emptyPercent: ofHeld('empty_bytes'),
        livePercent: ofHeld('live_bytes'),
        pinnedBlocks: middle(at('pinned_blocks')),
        slices,
        room,
        fillPercent: middle(at('fill_percent')),
        solePercent: middle(at('sole_percent')),
        ageMs: middle(at('age_ms')),
        scavenges: middle(at('scavenges_per_s')),
        markCompacts: middle(at('mark_compacts_per_s')),
    };
}

function wordOf({ pinnedBlocks, slices, room }) {
    if (pinnedBlocks < 1) {
        return 'none pinned';
    }
    const surplus = (slices - 1) / (room - 1);
    return surplus >= GC_HELD_FROM ? 'gc-held' : surplus <= POOL_PINNED_TO ? 'pool-pinned' : 'mixed';
}

function retentionRows(comparison) {
    const arms = armsOf(comparison);
    const lengths = metricsOf(comparison, /^live_bytes_\d+$/).map(({ length }) => length);
    const order = (a, b) => a.allocator.localeCompare(b.allocator) || Number(a.capacity) - Number(b.capacity);
    return lengths.flatMap((length) =>
        [...arms].sort(order).map((arm) => {
            const account = accountOf(comparison, arm, length);
            const smallest = atSmallest(arms, arm);
            const toSmallest = smallest && pairedRatio(comparison, arm.name, smallest.name, `live_bytes_${length}`);
            return { length, arm, account, toSmallest, word: wordOf(account) };
        }),
    );
}

function retentionCells({ length, arm, account, toSmallest, word }) {
    return [
        sizeName(length),
        arm.allocator,
        `@${arm.capacity}`,
        mib(account.live),
        mib(account.held),
        number(account.ratio),
        toSmallest === undefined ? '-' : number(toSmallest),
        [account.livePercent, account.strandedPercent, account.emptyPercent].map((share) => number(share, 0)).join('/'),
        `${number(account.slices, 1)} of ${number(account.room, 0)}`,
        number(account.fillPercent, 0),
        number(account.solePercent, 0),
        number(account.ageMs, 0),
        `${number(account.scavenges, 0)} + ${number(account.markCompacts, 0)}`,
        word,
    ];
}

function wordsSentence(rows) {
    const words = ['gc-held', 'pool-pinned', 'mixed', 'none pinned'];
    const counts = words.map((word) => [word, rows.filter((row) => row.word === word).length]).filter(([, n]) => n > 0);
    const mostly = [...counts].sort((a, b) => b[1] - a[1])[0];
    const answer = mostly[1] * 2 > rows.length ? mostly[0] : 'no word for most';
    return `Pinned blocks are ${counts.map(([word, n]) => `${word} in ${n}`).join(', ')} of ${rows.length} rows: ${answer}.`;
}

// Which of the three parts of what is held is the largest.
function shareSentence(rows) {
    const middle = (field) => median(rows.map(({ account }) => account[field]));
    const shares = [
        ['live, for the collector to take', middle('livePercent')],
        ['stranded in pinned blocks', middle('strandedPercent')],
        ['in empty blocks, kept for use', middle('emptyPercent')],
    ];
    return `Of what is held, in the middle row: ${shares.map(([what, share]) => `${number(share, 0)} % ${what}`).join('; ')}.`;
}

function capacitySentences(rows) {
    const bigger = rows.filter((row) => Number.isFinite(row.toSmallest));
    if (bigger.length === 0) {
        return [];
    }
    const more = bigger.filter((row) => row.toSmallest > 1.1).length;
    const less = bigger.filter((row) => row.toSmallest < 1 / 1.1).length;
    return [
        `With the capacity at 32 instead of 8 live bytes are ${number(median(bigger.map((row) => row.toSmallest)))} times as many in the middle row; ` +
            `over 1.1 times in ${more}, under 1/1.1 in ${less} of ${bigger.length}.`,
    ];
}

function retentionTables(comparison) {
    const rows = retentionRows(comparison);
    const [{ arm }] = rows;
    const header = ['length', 'pools', 'flag', 'live', 'held', 'ratio', ':@8', 'l/s/e %', 'slices', 'fill', 'sole', 'age', 'GC/s', 'pinned are'];
    return [
        `### What the pools hold while buffers are created, Node ${arm.version}`,
        table(header, rows.map(retentionCells), [0, 1, 2, 13]),
        [
            'slow-allocUnsafe; of the pool that serves the length: means of up to 12 dumps at random moments of a run, medians over rounds.',
            'live, held in MiB, ratio held : live, :@8 live bytes against flag 8 in the same round; l/s/e: how much of held is live, stranded',
            'in pinned blocks, in empty blocks (a rest is in blocks still carved). Of pinned blocks: live slices in one and how many fit; fill:',
            'live bytes in %; sole: % that one slice pins; age: median of ms pinned, within a class (0, 10, 100, 1000 ms) as if even.',
            'GC/s: scavenges + mark-compacts a second.',
            `gc-held: of the room in pinned blocks beside one slice each, at least ${100 * GC_HELD_FROM} % is live, (slices - 1) / (fit - 1), so what blocks hold`,
            `is mostly buffers not collected yet. pool-pinned: at most ${100 * POOL_PINNED_TO} %: few slices hold a block. Else mixed.`,
            wordsSentence(rows),
            shareSentence(rows),
            ...capacitySentences(rows),
        ].join('\n'),
        ...noFlagNotes(armsOf(comparison)),
        about(comparison),
    ];
}

// --- all ------------------------------------------------------------------------------------------

const TABLES = { versions: versionsTables, types: typesTables, retention: retentionTables };

runTable((out) => {
    const comparisons = readComparisons(out, Object.keys(TABLES));
    const parts = [...comparisons].flatMap(([name, comparison]) => TABLES[name](comparison));
    console.log(`## Buffer creation\n\n${parts.join('\n\n')}`);
});
