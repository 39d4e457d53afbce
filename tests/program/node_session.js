// SPDX-License-Identifier: MIT
//
// node_session: a Node program that checks itself and prints one line a part. The lines depend on
// the arguments only, never on timing, so that two runs can be compared line by line.
//
//   node --expose-gc node_session.js FOLDER ROUNDS
//
// FOLDER is for scratch files. ROUNDS is how often a set of workers is started and stopped.
'use strict';

const assert = require('assert');
const childProcess = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const path = require('path');
const { PassThrough, Transform, pipeline } = require('stream');
const { promisify } = require('util');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const zlib = require('zlib');

const WORKERS = 4;
const SIZES = [100, 512, 1025, 2048, 4096, 4097, 8192, 16384, 32768, 32769, 65536, 200000];
const run = promisify(pipeline);
const sha = (data) => crypto.createHash('sha256').update(data).digest('hex').slice(0, 16);

// Numbers in [0, limit): a linear congruential generator (Numerical Recipes), the same in every run.
function numbers(seed) {
  let state = (seed * 2654435761 + 1) >>> 0;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * limit);
  };
}

// A buffer whose every byte follows from its length and a key, so that anybody can check it.
function makePatterned(bytes, key) {
  return Buffer.allocUnsafeSlow(bytes).fill(Buffer.from([key & 255, bytes & 255, (key + bytes) & 255, 0x5a]));
}

function checkPatterned(buffer, key) {
  assert(buffer.equals(makePatterned(buffer.length, key)), `a buffer of ${buffer.length} bytes changed`);
}

// Buffers of two lifetimes, some short, some kept until far later; each checked before it is let go.
function useBuffers(seed, steps) {
  const next = numbers(seed);
  const kept = [];
  const hash = crypto.createHash('sha256');
  for (let i = 0; i < steps; i++) {
    const buffer = makePatterned(1 + next(i % 50 ? 9000 : 70000), i);
    hash.update(buffer.subarray(0, 16));
    kept.push([buffer, i]);
    if (kept.length > 300) {
      const [old, key] = kept.splice(next(kept.length), 1)[0];
      checkPatterned(old, key);
    }
  }
  for (const [old, key] of kept) checkPatterned(old, key);
  let text = '';
  for (let i = 0; i < steps; i++) text += Buffer.from(`text ${i} é `, 'utf8').toString('base64');
  return hash.update(Buffer.concat([Buffer.from(text), makePatterned(5000, 1)])).digest('hex').slice(0, 16);
}

async function useZlib() {
  const pack = [zlib.deflate, zlib.gzip, zlib.brotliCompress].map(promisify);
  const unpack = [zlib.inflate, zlib.gunzip, zlib.brotliDecompress].map(promisify);
  const options = [{ level: 6 }, { level: 1 }, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }];
  const parts = [];
  for (const bytes of SIZES) {
    const body = Buffer.from('x'.repeat(bytes).replace(/x/g, (_, at) => String.fromCharCode(97 + (at * 7919) % 23)));
    for (let kind = 0; kind < pack.length; kind++) {
      parts.push(pack[kind](body, options[kind]).then(async (packed) => {
        assert((await unpack[kind](packed)).equals(body), 'what was compressed came back changed');
        return sha(packed);
      }));
    }
    assert(zlib.inflateRawSync(zlib.deflateRawSync(body)).equals(body));
  }
  return sha((await Promise.all(parts)).join());
}

async function useCrypto() {
  const derive = promisify(crypto.pbkdf2);
  const harden = promisify(crypto.scrypt);
  const parts = [];
  for (let i = 0; i < 6; i++) {
    parts.push(derive(`secret ${i}`, 'salt', 200, 4096, 'sha512').then(sha));
    parts.push(harden(`secret ${i}`, 'salt', 3000, { N: 256 }).then(sha));
  }
  for (const bytes of SIZES) {
    const cipher = crypto.createCipheriv('aes-256-gcm', makePatterned(32, 3), makePatterned(12, 4));
    const body = makePatterned(bytes, 5);
    const sealed = Buffer.concat([cipher.update(body), cipher.final()]);
    const opener = crypto.createDecipheriv('aes-256-gcm', makePatterned(32, 3), makePatterned(12, 4));
    opener.setAuthTag(cipher.getAuthTag());
    assert(Buffer.concat([opener.update(sealed), opener.final()]).equals(body), 'what was sealed came back changed');
    parts.push(sha(sealed));
  }
  const { publicKey, privateKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const signature = crypto.sign('sha256', makePatterned(9000, 6), privateKey);
  assert(crypto.verify('sha256', makePatterned(9000, 6), publicKey, signature), 'a signature does not verify');
  return sha((await Promise.all(parts)).join());
}

async function useStreams(folder) {
  const hashes = SIZES.map(async (bytes, i) => {
    const from = path.join(folder, `stream-${i}`);
    fs.writeFileSync(from, makePatterned(bytes * 5, i));
    const hash = crypto.createHash('sha256');
    const tap = new Transform({ transform(chunk, _, done) { hash.update(chunk); done(null, Buffer.from(chunk)); } });
    await run(fs.createReadStream(from, { highWaterMark: 1500 + i * 3000 }), zlib.createGzip(), new PassThrough(),
      zlib.createGunzip(), tap, fs.createWriteStream(`${from}.copy`));
    checkPatterned(fs.readFileSync(`${from}.copy`), i);
    return hash.digest('hex').slice(0, 16);
  });
  return sha((await Promise.all(hashes)).join());
}

// An HTTP server of our own on a socket in the folder, with bodies both ways.
async function useHttp(folder) {
  const server = http.createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      response.setHeader('x-filler', 'y'.repeat(1500));
      response.end(Buffer.concat(chunks));
    });
  });
  // A path relative to the current directory: an absolute one may be too long for a socket.
  const socketPath = path.relative(process.cwd(), path.join(folder, 'http.sock'));
  await new Promise((done) => server.listen(socketPath, done));
  server.keepAliveTimeout = 0; // a machine that stands still for 5 s must not end a connection
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  const ask = (bytes, key) => new Promise((done, failed) => {
    const request = http.request({ socketPath, agent, method: 'POST', path: `/${key}` }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => {
        checkPatterned(Buffer.concat(chunks), key);
        done(bytes);
      });
    });
    request.on('error', failed);
    request.end(makePatterned(bytes, key));
  });
  let bytes = 0;
  for (let i = 0; i < 25; i++) {
    for (const answered of await Promise.all(SIZES.map((size, k) => ask(size, i * 20 + k)))) bytes += answered;
  }
  agent.destroy();
  await new Promise((done) => server.close(done));
  return bytes;
}

// Child processes: spawned ones run this very program again, forked ones get messages.
async function useChildren() {
  const answer = childProcess.execFileSync(process.execPath, ['-e', 'process.stdout.write("z".repeat(30000))']);
  assert.strictEqual(answer.length, 30000);
  const child = childProcess.fork(__filename, ['--child']);
  const reply = await new Promise((done, failed) => {
    child.on('error', failed);
    child.on('message', done);
    child.send({ text: 'q'.repeat(50000) });
  });
  child.disconnect();
  const code = await new Promise((done) => child.on('exit', done));
  return `${reply.length} ${code}`;
}

// --- workers ---------------------------------------------------------------------------------------

async function workInWorker() {
  const { folder, id, stay } = workerData;
  const results = [useBuffers(id, 600)];
  for (let i = 0; i < 20; i++) {
    for (const bytes of SIZES.slice(0, 9)) {
      const body = await fs.promises.readFile(path.join(folder, `read-${bytes}`));
      if (i === 0) checkPatterned(body, bytes);
    }
  }
  results.push(sha(zlib.gzipSync(makePatterned(100000, id))));
  // These are allocated here and released by the main thread, long after this one has ended.
  const gifts = [1500, 5000, 20000, 40000].map((bytes) => makePatterned(bytes, id).buffer);
  parentPort.postMessage({ results, gifts }, gifts);
  if (stay) setInterval(() => useBuffers(id, 50), 1); // until it is terminated in the middle of it
}

function startWorker(folder, id, stay) {
  return new Promise((done, failed) => {
    let answer;
    const worker = new Worker(__filename, { workerData: { folder, id, stay } });
    worker.on('error', failed);
    worker.on('message', (message) => {
      answer = message;
      if (stay) setTimeout(() => worker.terminate(), 5);
    });
    worker.on('exit', () => (answer ? done(answer) : failed(new Error('a worker ended without an answer'))));
  });
}

// Returns what the workers computed, and the resident bytes after each round.
async function useWorkers(folder, rounds) {
  for (const bytes of SIZES) fs.writeFileSync(path.join(folder, `read-${bytes}`), makePatterned(bytes, bytes));
  const resident = [];
  const results = new Set();
  for (let round = 0; round < rounds; round++) {
    const workers = [];
    for (let i = 0; i < WORKERS; i++) workers.push(startWorker(folder, i, i % 2 === 1));
    const answers = await Promise.all(workers);
    answers.forEach((answer, i) => answer.gifts.forEach((gift) => checkPatterned(Buffer.from(gift), i)));
    results.add(answers.map((answer) => answer.results.join()).join());
    answers.length = 0;
    global.gc();
    resident.push(process.memoryUsage.rss());
  }
  assert.strictEqual(results.size, 1, 'workers computed different things in different rounds');
  return { result: sha([...results][0]), resident };
}

// The first rounds fill pools and arenas. After those, the last third must not lie above the third
// before it by more than noise: an eighth and 24 MiB.
function describeGrowth(resident) {
  const third = Math.floor(resident.length / 3);
  const least = (rounds) => Math.min(...rounds);
  const before = least(resident.slice(-2 * third, -third));
  const after = least(resident.slice(-third));
  fs.writeFileSync('resident', resident.map((bytes) => `${bytes}\n`).join(''));
  return after <= before * 1.125 + 24 * 1048576 ? 'does not grow' : `grew from ${before} to ${after}`;
}

async function main() {
  const [folder, rounds] = [process.argv[2], Number(process.argv[3])];
  fs.mkdirSync(folder, { recursive: true });
  console.log('buffers', useBuffers(1, 20000));
  console.log('zlib', await useZlib());
  console.log('crypto', await useCrypto());
  console.log('streams', await useStreams(folder));
  console.log('http', await useHttp(folder));
  console.log('children', await useChildren());
  const workers = await useWorkers(folder, rounds);
  console.log('workers', workers.result);
  console.log('resident memory over rounds of workers', describeGrowth(workers.resident));
}

if (!isMainThread) {
  workInWorker();
} else if (process.argv[2] === '--child') {
  process.on('message', (message) => process.send(message.text + useBuffers(7, 500)));
} else {
  main().catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
