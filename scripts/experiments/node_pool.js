// SPDX-License-Identifier: MIT
//
// Shared by the measured programs of mixed-lifetimes and proxy: the pool that Node carves small buffers from.
'use strict';

// Sets Buffer.poolSize to BUFFER_POOL_SIZE, if that is set; with 0 every buffer is an allocation of its own, and
// reaches malloc. Then uses up the pool that Node made before, so that every buffer after it is from ours.
// bytes: a length that a pool serves, whatever its size. -> the size, in bytes
function useNodePool(bytes) {
    const poolBytes = Number(process.env.BUFFER_POOL_SIZE ?? Buffer.poolSize);
    Buffer.poolSize = poolBytes;
    for (let i = 0; i < 4096; i++) {
        if (Buffer.allocUnsafe(bytes).buffer.byteLength === (poolBytes || bytes)) {
            return poolBytes;
        }
    }
    throw new Error(`Buffer.poolSize = ${poolBytes} has no effect in this Node`);
}

module.exports = { useNodePool };
