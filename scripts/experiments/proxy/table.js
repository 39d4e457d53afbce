// SPDX-License-Identifier: MIT
//
// The tables of proxy: resident size, external memory and stranded bytes over time in each arm, and a word for
// each curve, beside what nodejs/node#67235 reports.
//
//   node table.js DIR
//
// How a curve is judged. Its second half counts: what the service needs for the first requests is not growth.
// The samples, one a second, are not independent of each other: the garbage collector gives memory back in
// strokes that are seconds apart. So the half is cut into BLOCKS parts, and a straight line is laid through their
// means by least squares. Growth is what the line climbs from one end of the half to the other, with the 95 %
// interval from the residuals of the means. It is held against a margin, MARGIN_PERCENT of the mean resident
// size of that half:
//
//   climbs   all of the interval lies above the margin      falls     all of it lies below minus the margin
//   plateau  all of it lies between the two                 unclear   anything else, or too few samples
//
// Runs of one arm are judged one by one; where they do not agree, each one's word is given.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { readComparisons, runTable, median, percent, number, mib, signedMib, table, about } = require('../tables.js');

const FOLDERS = ['node', 'node-64k'];
const BLOCKS = 8;
const T_95 = 2.447; // Student's t for 95 % and BLOCKS - 2 degrees of freedom
const SAMPLES_MIN = 3; // in a block
const MARGIN_PERCENT = 2;

// Over hours with the one, over 35 to 45 minutes and till it was recycled with the other.
const SOURCE = { js8k: 'plateau', js64k: 'climbs' };

function mean(values) {
    return values.reduce((sum, value) => sum + value, 0) / values.length;
}

// The line through points [x, y]: slope and its standard error.
function fitLine(points) {
    const x0 = mean(points.map(([x]) => x));
    const y0 = mean(points.map(([, y]) => y));
    const sxx = points.reduce((sum, [x]) => sum + (x - x0) ** 2, 0);
    const slope = points.reduce((sum, [x, y]) => sum + (x - x0) * (y - y0), 0) / sxx;
    const residual = points.reduce((sum, [x, y]) => sum + (y - y0 - slope * (x - x0)) ** 2, 0);
    return { slope, error: Math.sqrt(residual / (points.length - 2) / sxx) };
}

// samples: [{ timeS, value }] of the whole load. sizeBytes: what the margin is a share of.
function judgeCurve(samples, sizeBytes) {
    const unclear = { word: 'unclear', perMinute: NaN, low: NaN, high: NaN };
    if (samples.length < 2 * BLOCKS * SAMPLES_MIN) {
        return unclear;
    }
    const fromS = (samples[0].timeS + samples.at(-1).timeS) / 2;
    const halfS = samples.at(-1).timeS - fromS;
    const blocks = Array.from({ length: BLOCKS }, () => []);
    for (const sample of samples.filter(({ timeS }) => timeS >= fromS)) {
        blocks[Math.min(BLOCKS - 1, Math.floor(((sample.timeS - fromS) / halfS) * BLOCKS))].push(sample);
    }
    if (!blocks.every((block) => block.length >= SAMPLES_MIN)) {
        return unclear;
    }
    const { slope, error } = fitLine(blocks.map((block) => [mean(block.map(({ timeS }) => timeS)), mean(block.map(({ value }) => value))]));
    const [low, high] = [slope - T_95 * error, slope + T_95 * error];
    const margin = (MARGIN_PERCENT / 100) * sizeBytes;
    const isWithin = low * halfS >= -margin && high * halfS <= margin;
    const word = isWithin ? 'plateau' : low * halfS > margin ? 'climbs' : high * halfS < -margin ? 'falls' : 'unclear';
    return { word, perMinute: slope * 60, low: low * 60, high: high * 60 };
}

// --- what was sampled -----------------------------------------------------------------------------

// One run: its samples under load.
function readSamples(folder) {
    const [header, ...lines] = fs.readFileSync(path.join(folder, 'samples.csv'), 'utf8').trimEnd().split('\n');
    const columns = header.split(',');
    const rows = lines.map((line) => Object.fromEntries(line.split(',').map((cell, i) => [columns[i], cell])));
    return rows.filter(({ phase }) => phase === 'load');
}

function curveOf(rows, column) {
    return rows.filter((row) => row[column] !== '').map((row) => ({ timeS: Number(row.time_s), value: Number(row[column]) }));
}

// What the program printed of itself while it was under load: the same clock, from the start of the process.
function readMemory(folder, rows) {
    const [fromS, toS] = [Number(rows[0]?.time_s), Number(rows.at(-1)?.time_s)];
    const lines = fs.readFileSync(path.join(folder, 'output'), 'utf8').split('\n').filter((line) => line.startsWith('{"time_s":'));
    return lines.map((line) => JSON.parse(line)).filter(({ time_s: timeS }) => timeS >= fromS && timeS <= toS);
}

// Means of the first and the last third, and of the second half.
function levels(curve) {
    const values = curve.map(({ value }) => value);
    const third = Math.max(1, Math.floor(values.length / 3));
    return { first: mean(values.slice(0, third)), last: mean(values.slice(-third)), half: mean(values.slice(values.length >> 1)) };
}

// All measured runs of an arm.
function runsOf(comparison, arm) {
    return comparison.runs(arm).map((run) => {
        const folder = comparison.folderOf(run);
        const rows = readSamples(folder);
        const memory = readMemory(folder, rows);
        const rss = curveOf(rows, 'rss_bytes');
        const stranded = curveOf(rows, 'stranded_high_bytes');
        const sizeBytes = levels(rss).half;
        const judged = (curve) => ({ ...levels(curve), ...judgeCurve(curve, sizeBytes) });
        return {
            rss: judged(rss),
            external: judged(curveOf(memory, 'external')),
            heapUsed: judged(curveOf(memory, 'heap_used')),
            stranded: stranded.length === 0 ? undefined : judged(stranded),
        };
    });
}

// Of several runs one: medians, the widest interval, and the word they agree on, or each one's.
function summarise(curves) {
    const of = (field) => curves.map((curve) => curve[field]);
    const words = [...new Set(of('word'))];
    return {
        first: median(of('first')),
        last: median(of('last')),
        perMinute: median(of('perMinute')),
        low: Math.min(...of('low')),
        high: Math.max(...of('high')),
        word: words.length === 1 ? words[0] : of('word').join('/'),
    };
}

function summariseArm(comparison, arm) {
    const runs = runsOf(comparison, arm);
    const of = (field) => runs.map((run) => run[field]).filter((curve) => curve !== undefined);
    const stranded = of('stranded');
    return {
        arm,
        rss: summarise(of('rss')),
        external: summarise(of('external')),
        heapUsed: summarise(of('heapUsed')),
        stranded: stranded.length === 0 ? undefined : summarise(stranded),
    };
}

// --- tables ---------------------------------------------------------------------------------------

function slopeText({ perMinute, low, high }) {
    return Number.isFinite(perMinute) ? `${signedMib(perMinute)} (${signedMib(low)} to ${signedMib(high)})` : '-';
}

function rssTable(comparison, summaries) {
    const header = ['arm', 'requests/s', 'CPU ms each', 'first third', 'last third', 'MiB per minute', 'RSS', 'source'];
    const rows = summaries.map(({ arm, rss }) => [
        arm,
        number(comparison.median(arm, 'requests_per_s'), 0),
        number((comparison.median(arm, 'load_cpu_s') / comparison.median(arm, 'load_s') / comparison.median(arm, 'requests_per_s')) * 1000, 2),
        mib(rss.first),
        mib(rss.last),
        slopeText(rss),
        rss.word,
        SOURCE[arm] ?? '-',
    ]);
    return table(header, rows, [0, 6, 7]);
}

function externalTable(summaries) {
    const header = ['arm', 'first third', 'last third', 'MiB per minute', 'external', 'source', 'heapUsed: first', 'last', 'heapUsed'];
    const rows = summaries.map(({ arm, external, heapUsed }) => [
        arm,
        mib(external.first),
        mib(external.last),
        slopeText(external),
        external.word,
        SOURCE[arm] ?? '-',
        mib(heapUsed.first),
        mib(heapUsed.last),
        heapUsed.word,
    ]);
    return table(header, rows, [0, 4, 5, 8]);
}

function strandedTable(comparison, summaries) {
    const header = ['arm', 'first third', 'last third', 'MiB per minute', 'stranded', 'live', 'held', 'stranded at the end', 'after rest'];
    const rows = summaries
        .filter(({ stranded }) => stranded !== undefined)
        .map(({ arm, stranded }) => [
            arm,
            mib(stranded.first),
            mib(stranded.last),
            slopeText(stranded),
            stranded.word,
            mib(comparison.median(arm, 'live_load_bytes')),
            mib(comparison.median(arm, 'held_load_bytes')),
            mib(comparison.median(arm, 'stranded_load_bytes')),
            mib(comparison.median(arm, 'stranded_settled_bytes')),
        ]);
    return rows.length === 0 ? '' : table(header, rows, [0, 4]);
}

// One arm's level against another's, and both words.
function pairSentence(summaries, from, to) {
    const find = (name) => summaries.find(({ arm }) => arm === name)?.rss;
    const [small, large] = [find(from), find(to)];
    if (small === undefined || large === undefined) {
        return [];
    }
    const more = large.last - small.last;
    return [`- ${from} to ${to}: ${signedMib(more)} MiB (${percent((more / small.last) * 100, 0)}) in the last third; ${from}: ${small.word}, ${to}: ${large.word}.`];
}

// The source saw the same in the memory of its hosts and in external.
function sourceSentences(summaries) {
    return summaries
        .filter(({ arm }) => arm in SOURCE)
        .map(({ arm, rss, external }) => {
            const said = (curve) => `${curve.word}${curve.word === SOURCE[arm] ? ', as in the source' : ''}`;
            return `- ${arm}, source ${SOURCE[arm]}: RSS ${said(rss)}; external ${said(external)}.`;
        });
}

function main(out) {
    const comparisons = [...readComparisons(out, FOLDERS).values()];
    console.log('# A reverse proxy under steady load (nodejs/node#67235)');
    for (const comparison of comparisons) {
        const summaries = comparison.arms.map((arm) => summariseArm(comparison, arm));
        const folder = path.join(comparison.dir, 'runs');
        const output = fs.readFileSync(path.join(folder, fs.readdirSync(folder).sort()[0], 'output'), 'utf8');
        const [, version] = /^Node (v[\d.]+)/m.exec(output);
        const loadS = comparison.median(comparison.baseline, 'load_s');
        console.log(`\n## Node ${version}, ${number(loadS / 60, 1)} minutes of load a run\n`);
        console.log(about(comparison));
        console.log('\nResident size in MiB, means of the first and the last third of the load; slope of the second half with its 95 % interval.\n');
        console.log(rssTable(comparison, summaries));
        console.log('\nexternal, and heapUsed, of process.memoryUsage() in MiB. What pinpool strands is no part of them.\n');
        console.log(externalTable(summaries));
        const stranded = strandedTable(comparison, summaries);
        if (stranded !== '') {
            console.log('\nStranded bytes of pinpool in MiB: sampled (upper bound) over the load, then from the dump at its end.\n');
            console.log(stranded);
        }
        const pairs = [['js8k', 'js64k'], ['8k', '64k'], ['off', '8k,64k']];
        console.log(`\n${[...pairs.flatMap(([from, to]) => pairSentence(summaries, from, to)), ...sourceSentences(summaries)].join('\n')}`);
        console.log(`\nThe curves: ${path.relative(out, comparison.dir)}/plots/rss-over-time.png and stranded-over-time.png.`);
    }
    console.log(`
js8k, js64k: Buffer.poolSize; the other arms have no pool in Node, so that every buffer reaches malloc.
climbs: in the second half of the load it grows by more than ${MARGIN_PERCENT} % of the resident size, with all of its 95 % interval (least
squares through the means of ${BLOCKS} parts, because neighbouring samples depend on each other). falls: the other way. plateau:
by less than that in either direction. Else unclear, also with fewer than ${2 * BLOCKS * SAMPLES_MIN} samples. Runs that do not agree: each one's word.
Slopes: median of the runs, ends of all their intervals. The source's plateau was seen for hours, its climb for 35 to 45
minutes, till the service was recycled.
What the program keeps does not grow: 3000 sessions at the start and at the end. They are replaced after at most 10 minutes;
what is pinned can grow until each was replaced, and has no reason to afterwards.`);
}

module.exports = { judgeCurve };

if (require.main === module) {
    runTable(main);
}
