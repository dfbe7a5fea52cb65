#!/usr/bin/env node
// Eight shards of work, shared evenly among however many processes are there; each shard is owned by one at a time.
//
//   node examples/shard-owner.mjs a           in as many terminals as you like, with other names; then kill one with -9
//
// Two kinds of leases. `shop/members/NAME`: that this process is there, so that everyone can count. `shop/shards/N`: that
// it owns shard N. All of them are kept by one renewal. When anything changes everyone looks again: whoever has more than its
// share gives some up, whoever has less takes what is free.
import { setTimeout as sleep } from "node:timers/promises";
import { connect, onShutdown } from "tenure";

const SHARDS = 8;
const [name = `owner-${process.pid}`] = process.argv.slice(2);
const { TENURE_STORE = "sqlite:./tenure.db" } = process.env;
const say = (text) => console.log(`${name}: ${text}`);

const tenure = await connect(TENURE_STORE, { holderId: name });
const member = await tenure.acquire(`shop/members/${name}`);
const owned = new Map();
let ending = false;
let lastSaid = "";

/** The work: never without a look at the lease. Ends when the shard is given up, or lost. */
async function work(lease, stop) {
  while (!stop.aborted) {
    lease.check();
    await sleep(100, undefined, { signal: stop }).catch(() => undefined);
  }
}

function take(shard, lease) {
  const stop = new AbortController();
  owned.set(shard, { lease, stop });
  say(`took shard ${shard} under token ${lease.token}`);
  lease.signal.addEventListener("abort", () => stop.abort());
  lease
    .run(() => work(lease, stop.signal))
    .catch((error) => say(`shard ${shard}: ${error.message}`))
    .finally(() => owned.delete(shard));
}

async function giveUp(shard) {
  const { lease, stop } = owned.get(shard);
  stop.abort();
  await lease.release(); // waits for the work
  say(`gave up shard ${shard}`);
}

async function balance() {
  let members = 0;
  for await (const _ of tenure.list("shop/members/")) members += 1;
  const share = Math.ceil(SHARDS / Math.max(1, members));
  for (const shard of [...owned.keys()].slice(share)) await giveUp(shard);
  for (let shard = 0; shard < SHARDS && owned.size < share && !ending; shard += 1) {
    if (owned.has(shard)) continue;
    const lease = await tenure.tryAcquire(`shop/shards/${shard}`);
    if (lease !== undefined) take(shard, lease);
  }
  const text = `owns ${[...owned.keys()].sort().join(",") || "none"} of ${SHARDS}, with ${members} here`;
  if (text !== lastSaid) say(text);
  lastSaid = text;
}

/** A store that is away for a moment is no reason to end: the leases hold until their deadlines. */
async function look() {
  for (;;) {
    try {
      return await balance();
    } catch (error) {
      if (ending || !error.retryable) throw error;
      say(`looks again in a second: ${error.message}`);
      await sleep(1_000);
    }
  }
}

onShutdown(tenure, {
  graceMs: 10_000,
  before: () => {
    ending = true;
    for (const { stop } of owned.values()) stop.abort();
  },
});
member.signal.addEventListener("abort", () => {
  if (ending) return;
  // Frozen for longer than the ttl, or cut off: the others count without us by now. A supervisor starts us anew.
  say("is not counted any more, and ends");
  process.exit(1);
});

// What changed does not matter; that something did is the reason to look. Ends with close().
try {
  for await (const _ of tenure.watch("shop/")) {
    if (ending) break;
    await look();
  }
} catch (error) {
  if (!ending) throw error;
}
