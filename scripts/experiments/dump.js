// SPDX-License-Identifier: MIT
//
// Shared by the measured programs of mixed-lifetimes and buffer-creation: pinpool's account of this very process.
// EXPERIMENT_TOOL is the program `pinpool`, which has it written.
'use strict';

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');

const DUMP_BYTES_MAX = 4 << 20; // as the library's own limit

function isPreloaded() {
    return fs.readFileSync('/proc/self/maps', 'latin1').includes('/libpinpool.so');
}

// Where dumps are read to: what is read with new buffers would be in the next one.
let text;

// Has the library write a dump of this process, now, and takes it away. -> its records
function takeDump() {
    text ??= Buffer.allocUnsafeSlow(DUMP_BYTES_MAX);
    const { status, stdout, stderr, error } = spawnSync(process.env.EXPERIMENT_TOOL, ['dump', String(process.pid)]);
    if (status !== 0) {
        throw new Error(`no dump: ${error?.message ?? stderr}`);
    }
    const file = stdout.toString('latin1').trimEnd();
    const fd = fs.openSync(file, 'r');
    const bytes = fs.readSync(fd, text, 0, text.length, 0);
    fs.closeSync(fd);
    fs.unlinkSync(file);
    const records = text.latin1Slice(0, bytes).trimEnd().split('\n').map((line) => JSON.parse(line));
    if (records.at(-1).type !== 'end') {
        throw new Error(`${file} is not whole`);
    }
    return records;
}

module.exports = { DUMP_BYTES_MAX, isPreloaded, takeDump };
