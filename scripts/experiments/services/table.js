// SPDX-License-Identifier: MIT
//
// The table of the experiment services: a row for each service and arm.
//
//   node table.js DIR
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { LEAST_ROUNDS, readComparisons, runTable, change, percent, mib, count, number, table, about } = require('../tables.js');

const SERVICES = ['nginx', 'redis', 'python', 'node'];
const JUDGED = ['better', 'worse', 'same'];

const HEADER = ['service', 'arm', 'req/s', 'change', 'verdict', 'p99 ms', 'RSS', 'change', 'settled', 'live', 'held', 'stranded'];
const WORDS = [0, 1, 4];

function rowOf(service, comparison, arm) {
    const value = (metric) => comparison.median(arm, metric);
    const rate = comparison.comparison(arm, 'requests_per_s');
    return [
        service,
        arm,
        count(value('requests_per_s')),
        change(rate),
        rate?.verdict ?? '-',
        number(value('p99') * 1000),
        mib(value('rss_load_bytes')),
        percent(comparison.comparison(arm, 'rss_load_bytes')?.paired_percent ?? NaN),
        mib(value('rss_settled_bytes')),
        mib(value('live_load_bytes')),
        mib(value('held_load_bytes')),
        mib(value('stranded_load_bytes')),
    ];
}

// --- what follows from the figures ------------------------------------------------------------------

function withVerdict(comparison, metric, verdict) {
    return comparison.arms.filter((arm) => comparison.comparison(arm, metric)?.verdict === verdict);
}

// Arms may have commas in their names, hence the quotes.
function named(arms) {
    const quoted = arms.map((arm) => `\`${arm}\``);
    return [quoted.slice(0, -1).join(', '), ...quoted.slice(-1)].filter((part) => part !== '').join(' and ');
}

function verdictText(comparison, metric) {
    const said = JUDGED.map((verdict) => [verdict, withVerdict(comparison, metric, verdict)]).filter(([, arms]) => arms.length > 0);
    return said.length === 0 ? 'no arm told from it' : said.map(([verdict, arms]) => `${verdict} ${named(arms)}`).join('; ');
}

// The arm that holds most for what is live in it: { arm, ratio }; undefined without pools or anything live.
function largestRatio(comparison) {
    const ratios = comparison.arms
        .map((arm) => ({ arm, ratio: comparison.median(arm, 'held_load_bytes') / comparison.median(arm, 'live_load_bytes') }))
        .filter(({ ratio }) => Number.isFinite(ratio));
    return ratios.sort((a, b) => b.ratio - a.ratio)[0];
}

function sentencesOf(service, comparison) {
    const against = `against ${named([comparison.baseline])}`;
    const largest = largestRatio(comparison);
    const lines = [
        `- ${service}, requests/s ${against}: ${verdictText(comparison, 'requests_per_s')}.`,
        `- ${service}, RSS ${against}: ${verdictText(comparison, 'rss_load_bytes')}.`,
    ];
    if (largest !== undefined) {
        lines.push(`- ${service}, pools: ${named([largest.arm])} holds most for what is live in it, ${number(largest.ratio, 1)} times as much.`);
    }
    return lines;
}

// --- whose malloc redis has -------------------------------------------------------------------------

// What redis_load.js read from the server in every run, as arm -> jemalloc's shares of the data in per cent.
function jemallocShares(comparison) {
    const shares = new Map();
    const runs = path.join(comparison.dir, 'runs');
    for (const name of fs.existsSync(runs) ? fs.readdirSync(runs) : []) {
        const file = path.join(runs, name, 'load');
        const match = fs.existsSync(file) && /^arm (.+): jemalloc holds ([\d.]+) % of the data$/m.exec(fs.readFileSync(file, 'utf8'));
        if (match) {
            shares.set(match[1], [...(shares.get(match[1]) ?? []), Number(match[2])]);
        }
    }
    return shares;
}

function range(values) {
    const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(value < 10 ? 1 : 0));
    return least === most ? `${least} %` : `${least} to ${most} %`;
}

function redisMalloc(comparison) {
    const shares = jemallocShares(comparison);
    if (shares.size === 0) {
        return [];
    }
    const others = comparison.arms.filter((arm) => arm !== 'jemalloc' && shares.has(arm));
    const own = shares.get('jemalloc');
    const displaced = comparison.result.arms.filter((arm) => arm.spec.includes('libc.so.6')).map((arm) => arm.name);
    const lines = [`This redis-server is linked with jemalloc. libc.so.6, preloaded last, takes its place in ${named(displaced)}.`];
    if (others.length > 0) {
        lines.push(`By the server's own account jemalloc held ${range(others.flatMap((arm) => shares.get(arm)))} of the data in ${named(others)}.`);
    }
    if (own !== undefined) {
        lines.push(`In \`jemalloc\`, which is how it runs without a preload too, it held ${range(own)}.`);
    }
    return lines;
}

// Why there is no redis in the table; nothing where nobody asked for it.
function leftOut(out) {
    const file = path.join(out, 'redis-left-out');
    return fs.existsSync(file) ? [`redis is left out: ${fs.readFileSync(file, 'utf8').trim()}.`] : [];
}

// --- the whole --------------------------------------------------------------------------------------

function legend(comparisons) {
    const all = [...comparisons.values()];
    const lines = [
        'change: paired with the first arm of the same round, with its 95 % interval. RSS and its change: at the end of the load, in',
        'MiB; settled: the same after the settle time. live, held, stranded: MiB in pools at the end of the load.',
    ];
    if (comparisons.has('redis')) {
        lines.push('p99 of redis: the mean over the batches of redis-benchmark, half of them writes.');
    }
    if (all.some((comparison) => comparison.rounds < LEAST_ROUNDS)) {
        lines.push(`Fewer than ${LEAST_ROUNDS} rounds give no interval: the brackets hold the least and the greatest change.`);
    }
    return lines;
}

function main(out) {
    const comparisons = readComparisons(out, SERVICES);
    const entries = [...comparisons];
    const rows = entries.flatMap(([service, comparison]) => comparison.arms.map((arm) => rowOf(service, comparison, arm)));
    const paragraphs = [
        ['# Services'],
        [table(HEADER, rows, WORDS)],
        legend(comparisons),
        entries.flatMap(([service, comparison]) => sentencesOf(service, comparison)),
        comparisons.has('redis') ? redisMalloc(comparisons.get('redis')) : leftOut(out),
        ...entries.map(([service, comparison]) => [`${service}: ${about(comparison)}`]),
    ];
    const text = paragraphs.filter((lines) => lines.length > 0).map((lines) => lines.join('\n')).join('\n\n');
    process.stdout.write(`${text}\n`);
}

runTable(main);
