// SPDX-License-Identifier: MIT
//
// What the tables of readfile, lock-waits and pool-sizes share: the sizes of a comparison, what nodejs/node#63597
// reports for each, and how ours stands beside it.
'use strict';

const { LEAST_ROUNDS, signed, percent, sizeName, mib, table } = require('./tables.js');

// Change in % that the pull request reports, from its pool of 8 KiB to one of 64 KiB inside Node. It calls the
// others equal ('~'); by its own figures they differ by less than 2 % (360 and 367, 86 and 87 thousand).
const PULL_REQUEST = new Map([
    [512, 7],
    [2048, '~'],
    [4096, 10],
    [8192, 26],
    [16384, 23],
    [65536, '~'],
    [1048576, '~'],
]);
const EQUAL_PERCENT = 2;

function sizesOf(comparison) {
    const names = comparison.result.measures.map((measure) => /^reads_(\d+)$/.exec(measure.name));
    return names.filter((match) => match !== null).map((match) => Number(match[1]));
}

// What was run, from the command: read_files KIND READERS WARMUP SECONDS BYTES,... NODE [NODE-OPTION...]
function programOf(comparison) {
    const [, , readers, leadIn, seconds, , node, ...flags] = comparison.result.command;
    const text = `${[node.split('/').slice(-3).join('/'), ...flags].join(' ')}: ${readers} readers, ${seconds} s after ${leadIn} s.`;
    return { readers: Number(readers), text };
}

// An arm against the baseline at one size: { middle, low, high } in %; low and high undefined with too few
// rounds. undefined when there is no such comparison.
function changeOf(comparison, arm, bytes) {
    const row = comparison.comparison(arm, `reads_${bytes}`);
    if (row === undefined || !Number.isFinite(row.paired_percent)) {
        return undefined;
    }
    const interval = row.n_pairs < LEAST_ROUNDS ? {} : { low: row.paired_low95_percent, high: row.paired_high95_percent };
    return { middle: row.paired_percent, ...interval };
}

// '+26.1 % (+20.3 to +31.0)'
function changeText(change) {
    if (change === undefined) {
        return '-';
    }
    const { middle, low, high } = change;
    return low === undefined ? percent(middle) : `${percent(middle)} (${signed(low)} to ${signed(high)})`;
}

function pullRequestText(bytes) {
    const reported = PULL_REQUEST.get(bytes);
    return reported === undefined ? '-' : reported === '~' ? '~' : percent(reported, 0);
}

// Where ours lies, as the interval says: 'as the PR', 'above', 'below'; '-' where one cannot say.
function besidePullRequest(change, bytes) {
    const reported = PULL_REQUEST.get(bytes);
    if (reported === undefined || change?.low === undefined) {
        return '-';
    }
    const [least, most] = reported === '~' ? [-EQUAL_PERCENT, EQUAL_PERCENT] : [reported, reported];
    return change.low > most ? 'above' : change.high < least ? 'below' : 'as the PR';
}

// 'faster' and 'slower' only where the whole interval says so.
function direction(change) {
    return change?.low === undefined ? 'unknown' : change.low > 0 ? 'faster' : change.high < 0 ? 'slower' : 'unresolved';
}

// Peak RSS, the median of an arm's runs.
function rssBytes(comparison, arm, bytes) {
    return comparison.median(arm, `rss_kib_${bytes}`) * 1024;
}

// A row for each size and a column for each arm; beside(bytes) gives the cells of `titles` after them.
function rssTable(comparison, titles = [], beside = () => []) {
    const { arms } = comparison;
    const rows = sizesOf(comparison).map((bytes) => [sizeName(bytes), ...arms.map((arm) => mib(rssBytes(comparison, arm, bytes), 0)), ...beside(bytes)]);
    return table(['file', ...arms, ...titles], rows);
}

module.exports = { sizesOf, programOf, changeOf, changeText, pullRequestText, besidePullRequest, direction, rssBytes, rssTable };
