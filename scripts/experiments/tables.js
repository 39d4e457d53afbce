// SPDX-License-Identifier: MIT
//
// What the tables of the experiments share: reading the folders that `pinpool ab` writes, and printing
// tables that are Markdown and also line up as plain text.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

// Below that no interval of a median holds 95 %: `pinpool ab` gives the least and the greatest change then.
const LEAST_ROUNDS = 6;

// One folder of `pinpool ab`.
class Comparison {
    constructor(dir) {
        this.dir = dir;
        this.result = JSON.parse(fs.readFileSync(path.join(dir, 'result.json'), 'utf8'));
    }

    get baseline() {
        return this.result.arms.find((arm) => arm.is_baseline).name;
    }

    get arms() {
        return this.result.arms.map((arm) => arm.name);
    }

    // What `pinpool ab` was given for an arm.
    spec(arm) {
        return this.result.arms.find(({ name }) => name === arm).spec;
    }

    // The measured runs of an arm: warm-up and failed ones left out.
    runs(arm) {
        return this.result.runs.filter((run) => run.arm === arm && !run.warmup && run.failure === null);
    }

    // An arm's figures in one measure (n, mean, median, sd, min, max), or undefined.
    summary(arm, metric) {
        return this.result.summaries.find((row) => row.arm === arm && row.metric === metric);
    }

    // Its median, or NaN.
    median(arm, metric) {
        return this.summary(arm, metric)?.median ?? NaN;
    }

    // An arm against the baseline (improvement_percent, paired_percent, verdict ...), or undefined.
    comparison(arm, metric) {
        return this.result.comparisons.find((row) => row.arm === arm && row.metric === metric);
    }

    // The values of one arm in one measure, by round.
    values(arm, metric) {
        return new Map(this.runs(arm).filter((run) => metric in run.values).map((run) => [run.round, run.values[metric]]));
    }

    // Where the files of one of result.runs are.
    folderOf(run) {
        const parent = path.join(this.dir, 'runs');
        return path.join(parent, fs.readdirSync(parent).find((name) => Number(name.split('-', 1)[0]) === run.run));
    }

    // How many rounds every arm has.
    get rounds() {
        return Math.min(...this.result.arms.map((arm) => arm.runs));
    }
}

// The folders of an experiment by name; those that are not there are left out.
function readComparisons(out, names) {
    const found = names.filter((name) => fs.existsSync(path.join(out, name, 'result.json')));
    if (found.length === 0) {
        throw new Error(`${out}: no results there`);
    }
    return new Map(found.map((name) => [name, new Comparison(path.join(out, name))]));
}

function median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const half = sorted.length >> 1;
    if (sorted.length === 0) {
        return NaN;
    }
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// --- cells ----------------------------------------------------------------------------------------

function signed(value, digits = 1) {
    return `${value < 0 ? '' : '+'}${value.toFixed(digits)}`;
}

function percent(value, digits = 1) {
    return Number.isFinite(value) ? `${signed(value, digits)} %` : '-';
}

// The paired change of a comparison with its interval: '+1.2 % (-0.3 to +2.0)'.
function change(comparison) {
    if (comparison === undefined || !Number.isFinite(comparison.paired_percent)) {
        return '-';
    }
    const { paired_percent: middle, paired_low95_percent: low, paired_high95_percent: high } = comparison;
    return Number.isFinite(low) && Number.isFinite(high) ? `${percent(middle)} (${signed(low)} to ${signed(high)})` : percent(middle);
}

function sizeName(bytes) {
    return bytes % 1048576 === 0 ? `${bytes / 1048576} MiB` : bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} B`;
}

function mib(bytes, digits = 1) {
    return Number.isFinite(bytes) ? (bytes / 1048576).toFixed(digits) : '-';
}

function signedMib(bytes) {
    return `${bytes < 0 ? '' : '+'}${mib(bytes)}`;
}

function count(value) {
    return Number.isFinite(value) ? Math.round(value).toLocaleString('en') : '-';
}

function number(value, digits = 2) {
    return Number.isFinite(value) ? value.toFixed(digits) : '-';
}

// --- text -----------------------------------------------------------------------------------------

// A Markdown table whose columns line up. left: indices of the columns that are words.
function table(header, rows, left = [0]) {
    const widths = header.map((name, i) => Math.max(3, name.length, ...rows.map((row) => String(row[i]).length)));
    const line = (cells) => `| ${cells.map((cell, i) => (left.includes(i) ? String(cell).padEnd(widths[i]) : String(cell).padStart(widths[i]))).join(' | ')} |`;
    const rule = widths.map((width, i) => (left.includes(i) ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
    return [line(header), line(rule), ...rows.map(line)].join('\n');
}

// What one has to know to believe the figures: machine, rounds, order, what else ran.
function about(comparison) {
    const { provenance, settings, warnings, complete } = comparison.result;
    const { machine } = provenance;
    const load = `${number(provenance.load_average_min, 1)} to ${number(provenance.load_average_max, 1)}`;
    const date = new Date(provenance.start_unix_ns / 1e6).toISOString().slice(0, 10);
    const lines = [
        `${comparison.rounds} rounds, every arm once in each, in random order (seed ${settings.seed}), a fresh process each; ${date}.`,
        `${machine.cores_allowed} cores (${machine.cpu}), Linux ${machine.kernel}, glibc ${machine.glibc}, THP ${chosen(machine.thp_enabled)}; load average ${load}.`,
    ];
    if (!complete) {
        lines.push(`Not complete: ${comparison.rounds} of ${settings.rounds} rounds.`);
    }
    const noisy = warnings.filter((warning) => warning.includes('too noisy')).length;
    if (noisy > 0) {
        lines.push(`pinpool ab found the machine too noisy for ${noisy} of its rows; its report names them.`);
    }
    return lines.join('\n');
}

// 'always [madvise] never' -> 'madvise'
function chosen(setting) {
    return /\[(.*?)\]/.exec(setting ?? '')?.[1] ?? setting ?? 'unknown';
}

// The program of a table: main(DIR). What keeps it from being made is told in one line.
function runTable(main) {
    try {
        main(process.argv[2]);
    } catch (error) {
        console.error(error.message);
        process.exit(1);
    }
}

module.exports = { LEAST_ROUNDS, Comparison, readComparisons, runTable, median, signed, percent, change, sizeName, mib, signedMib, count, number, table, about };
