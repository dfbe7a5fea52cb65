// Two machines with the same schedule on one store in memory. Every fire must run on one of them only.
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

/** Resolves when several fires have run on one machine and were skipped on the other. Every run has its own token. */
export async function severalFires() {
  const until = Date.now() + 60_000;
  while (ran.length < 3 || skipped.length < 3) {
    assert.ok(Date.now() < until, `after 60 s: ${ran.length} runs, ${skipped.length} skips`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(new Set(ran).size, ran.length);
  // The machines do not start in the same second, and a fire may be under way.
  assert.ok(
    Math.abs(ran.length - skipped.length) <= 2,
    `${ran.length} runs, ${skipped.length} skips`,
  );
  assert.deepEqual([...new Set(skipped)], ["taken"]);
}
