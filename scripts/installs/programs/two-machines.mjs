// Two machines with the same schedule on one memory store. Every scheduled time must run on only
// one.
import assert from "node:assert/strict";
import { connect } from "tenure";
import { MemoryBackend, memoryStore } from "tenure/stores/memory";

const backend = new MemoryBackend();
const ran = [];
const skipped = [];

/** The store of one machine. */
export const store = () => memoryStore(backend);
export const connectMachine = (holderId) => connect(store(), { holderId });

export const onRun = (lease) => {
  lease.check();
  ran.push(lease.token);
};
export const onSkip = ({ reason }) => skipped.push(reason);

/** Waits until both machines have run and skipped several times. Every run has its own token. */
export async function severalFires() {
  const until = Date.now() + 60_000;
  while (ran.length < 3 || skipped.length < 3) {
    assert.ok(Date.now() < until, `after 60 s: ${ran.length} runs, ${skipped.length} skips`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(new Set(ran).size, ran.length);
  // The machines may start in different seconds, and a run may be in progress.
  assert.ok(
    Math.abs(ran.length - skipped.length) <= 2,
    `${ran.length} runs, ${skipped.length} skips`,
  );
  assert.deepEqual([...new Set(skipped)], ["taken"]);
}
