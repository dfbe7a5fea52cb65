// Goal: a preferred successor takes over, and one that was killed delays the others by its time at most. Method: candidates on
// one SQLite file that report what they do with the host's clock. Alone, because the delay is measured.
import { join } from "node:path";
import { expect, test } from "vitest";
import { CANDIDATE_TIMING, leads, useCandidates } from "../support/process-candidates.ts";
import type { Child } from "../support/process-children.ts";

const candidates = useCandidates();

test("the preferred candidate takes over from the end of the queue; a wish for one that was killed costs its time at most", async () => {
  const file = join(candidates.folder(), "tenure.db");
  const leader = await candidates.start(file, { name: "leader" });
  await leads(leader);
  const queue: Child[] = [];
  for (const name of ["second", "third", "fourth"]) {
    const next = await candidates.start(file, { name });
    await next.heard("campaigning");
    queue.push(next);
  }
  const [second, third, fourth] = queue as [Child, Child, Child];
  leader.say({ preferred: "fourth", waitMs: 10_000 });
  const { token } = await leads(fourth);
  expect(await leader.heard("handed over")).toMatchObject({ successor: { holderId: "fourth" } });
  for (const other of [second, third])
    expect(other.told.filter(({ event }) => event === "leads")).toEqual([]);
  // Its session is over when nobody expects it: the others hold back for nothing.
  third.signal("SIGKILL");
  await third.exited;
  const preferredMs = 1_000;
  const led = fourth.heard("led");
  fourth.say({ preferred: "third", preferredMs, waitMs: 0 });
  const from = await led;
  // The one that resigned is a candidate again, and on a busy machine it may be the first to ask.
  const after = BigInt(String(token));
  const next = await Promise.race([leads(second), leads(leader, after), leads(fourth, after)]);
  expect(next.at - from.at).toBeGreaterThan(preferredMs / 2);
  expect(next.at - from.at).toBeLessThan(preferredMs + CANDIDATE_TIMING.ttlMs);
});
