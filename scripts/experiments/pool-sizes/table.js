// SPDX-License-Identifier: MIT
//
// The table of pool-sizes: reads/s with a pool of each size against none, at each size of file.
//
//   node table.js DIR
'use strict';

const { LEAST_ROUNDS, readComparisons, runTable, percent, sizeName, count, table, about } = require('../tables.js');
const { sizesOf, programOf, changeOf, changeText, direction, rssTable } = require('../readfile_tables.js');

// All that nodejs/node#63597 tells of pools beyond 64 KiB, besides that it tried 32, 64, 128 and 256.
const SOURCE = { arm: '256k', bytes: 16384, text: '256: +64 %' };

// A star where the whole interval is on one side of 0.
function cell(change) {
    if (change === undefined) {
        return '-';
    }
    return `${percent(change.middle)}${['faster', 'slower'].includes(direction(change)) ? ' *' : '  '}`;
}

function best(comparison, arms, bytes) {
    const middle = (arm) => changeOf(comparison, arm, bytes)?.middle ?? -Infinity;
    const arm = arms.reduce((most, next) => (middle(next) > middle(most) ? next : most));
    return direction(changeOf(comparison, arm, bytes)) === 'faster' ? arm : '-';
}

function speedTable(comparison, arms) {
    const { baseline } = comparison;
    const rows = sizesOf(comparison).map((bytes) => [
        sizeName(bytes),
        count(comparison.median(baseline, `reads_${bytes}`)),
        ...arms.map((arm) => cell(changeOf(comparison, arm, bytes))),
        best(comparison, arms, bytes),
        bytes === SOURCE.bytes ? SOURCE.text : '-',
    ]);
    return table(['file', `${baseline} reads/s`, ...arms, 'best', 'source'], rows);
}

// Beside the one figure of the source.
function sourceSentence(comparison) {
    const own = changeOf(comparison, SOURCE.arm, SOURCE.bytes);
    return own === undefined ? '' : `${SOURCE.arm} at ${sizeName(SOURCE.bytes)}: ${changeText(own)}; the source has +64 %.`;
}

function main(out) {
    const comparison = readComparisons(out, ['readfile']).get('readfile');
    const arms = comparison.arms.filter((arm) => arm !== comparison.baseline);
    console.log(`# Pools of several sizes under fs.readFileSync in ${programOf(comparison).readers} worker threads (nodejs/node#63597)\n`);
    console.log(`${programOf(comparison).text}\n${about(comparison)}`);
    console.log(`\n## Reads/s, against ${comparison.baseline}\n`);
    console.log(speedTable(comparison, arms));
    console.log('\nMedian of the changes within a round. *: the whole 95 % interval is above 0, or below. best: the largest change,');
    console.log('where it has a *. source: pools inside Node, against its pool of 8 KiB; 32, 64, 128 and 256 KiB were tried.');
    if (comparison.rounds < LEAST_ROUNDS) {
        console.log(`${comparison.rounds} rounds: at least ${LEAST_ROUNDS} are needed for an interval, so there are no stars.`);
    }
    const sentence = sourceSentence(comparison);
    console.log(sentence === '' ? '' : `\n${sentence}\n`);
    console.log('## Peak RSS in MiB: medians\n');
    console.log(rssTable(comparison));
}

runTable(main);
