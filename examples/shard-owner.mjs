#!/usr/bin/env node
// Distributes eight shards of work evenly among any number of processes. Each shard has at most one
// owner at a time.
//
//   node examples/shard-owner.mjs a     in several terminals, with different names
//
// Kill one of them with -9, and the others take over its shards.
//
// There are two kinds of leases. `shop/members/NAME` says that a process is running, so that all
// can count the members. `shop/shards/N` says that a process owns shard N. One renewal covers all
// leases of a process. On every change, each process counts again: one with more than its share
// releases shards, one with less acquires free shards.
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
let lastStatus = "";

/** The work on a shard. It checks the lease before each step, and ends with the shard. */
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
  const text = `owns ${[...owned.keys()].sort().join(",") || "none"} of ${SHARDS}, ${members} members`;
  if (text !== lastStatus) say(text);
  lastStatus = text;
}

/** Retries while the store is unreachable: the leases remain valid until their deadlines. */
async function balanceWithRetries() {
  for (;;) {
    try {
      return await balance();
    } catch (error) {
      if (ending || !error.retryable) throw error;
      say(`retries in a second: ${error.message}`);
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
  // This process was frozen for longer than the ttl, or isolated. The other members no longer count
  // it. Exit, so that a supervisor restarts it.
  say("lost its membership and exits");
  process.exit(1);
});

// Every change is a reason to balance again, whatever it is. The loop ends with close().
try {
  for await (const _ of tenure.watch("shop/")) {
    if (ending) break;
    await balanceWithRetries();
  }
} catch (error) {
  if (!ending) throw error;
}
