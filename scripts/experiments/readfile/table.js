// SPDX-License-Identifier: MIT
//
// The table of readfile: reads/s of each arm against the baseline at each size, beside what
// nodejs/node#63597 reports, and peak RSS.
//
//   node table.js DIR
'use strict';

const { LEAST_ROUNDS, readComparisons, runTable, sizeName, signedMib, count, table, about } = require('../tables.js');
const { sizesOf, programOf, changeOf, changeText, pullRequestText, besidePullRequest, direction, rssBytes, rssTable } = require('../readfile_tables.js');

const COST_KIB = 56; // what the pull request counts for each realm: the main thread and each worker
const ARMS_ABREAST = 3;

function isPinpool(comparison, arm) {
    return /^(idle|\d+[km])/.test(comparison.spec(arm));
}

// The arm that the pull request's pool of 64 KiB is to be compared to, or undefined.
function pullRequestArm(comparison, arms) {
    return arms.find((arm) => /^64k(:[a-z]+)?$/.test(comparison.spec(arm)));
}

function chunks(values, length) {
    return Array.from({ length: Math.ceil(values.length / length) }, (_, i) => values.slice(i * length, (i + 1) * length));
}

// Reads/s: three arms abreast; the pull request beside the arm that is like it.
function speedTable(comparison, arms) {
    const { baseline } = comparison;
    const like = pullRequestArm(comparison, arms);
    const header = ['file', `${baseline} reads/s`, ...arms, ...(like ? ['PR', `${like} is`] : [])];
    const rows = sizesOf(comparison).map((bytes) => {
        const changes = arms.map((arm) => changeOf(comparison, arm, bytes));
        const beside = like ? [pullRequestText(bytes), besidePullRequest(changes[arms.indexOf(like)], bytes)] : [];
        return [sizeName(bytes), count(comparison.median(baseline, `reads_${bytes}`)), ...changes.map(changeText), ...beside];
    });
    return table(header, rows, like ? [0, header.length - 1] : [0]);
}

function realmsOf(comparison) {
    return 1 + programOf(comparison).readers;
}

// Peak RSS of each arm; the pull request beside the arm that is like it.
function memoryTable(comparison) {
    const { baseline, arms } = comparison;
    const like = pullRequestArm(comparison, arms);
    if (!like) {
        return rssTable(comparison);
    }
    const more = (bytes) => rssBytes(comparison, like, bytes) - rssBytes(comparison, baseline, bytes);
    return rssTable(comparison, [`${like} - ${baseline}`, 'PR'], (bytes) => [signedMib(more(bytes)), signedMib(realmsOf(comparison) * COST_KIB * 1024)]);
}

// One line an arm, from the intervals alone.
function sentence(comparison, arm) {
    const sizes = (wanted) => sizesOf(comparison).filter((bytes) => direction(changeOf(comparison, arm, bytes)) === wanted);
    const parts = ['faster', 'slower', 'unresolved'].filter((wanted) => sizes(wanted).length > 0);
    return `- ${arm}: ${parts.map((wanted) => `${wanted} at ${sizes(wanted).map(sizeName).join(', ')}`).join('; ')}.`;
}

function main(out) {
    const comparison = readComparisons(out, ['readfile']).get('readfile');
    const others = comparison.arms.filter((arm) => arm !== comparison.baseline);
    const groups = [others.filter((arm) => isPinpool(comparison, arm)), others.filter((arm) => !isPinpool(comparison, arm))];
    console.log(`# fs.readFileSync in ${programOf(comparison).readers} worker threads (nodejs/node#63597)\n`);
    console.log(`${programOf(comparison).text}\n${about(comparison)}`);
    console.log(`\n## Reads/s, against ${comparison.baseline}\n`);
    for (const arms of groups.flatMap((group) => chunks(group, ARMS_ABREAST))) {
        console.log(`${speedTable(comparison, arms)}\n`);
    }
    console.log('Change: median of the changes within a round, with its 95 % interval. PR: from a pool of 8 KiB to one of 64 KiB');
    console.log(`inside Node. as the PR: its figure is in our interval (~: our interval reaches within 2 % of no change).\n`);
    if (comparison.rounds < LEAST_ROUNDS) {
        console.log(`${comparison.rounds} rounds: at least ${LEAST_ROUNDS} are needed for an interval, and to say which arm is faster.\n`);
    } else {
        console.log(`${others.map((arm) => sentence(comparison, arm)).join('\n')}\n`);
    }
    console.log('## Peak RSS in MiB: medians\n');
    console.log(memoryTable(comparison));
    console.log(`\nPR: +${COST_KIB} KiB for each of ${realmsOf(comparison)} realms, the main thread and its workers.`);
}

runTable(main);
