// Goal: a preferred successor takes over from the end of the queue, and one that was killed does
// not keep the others from leading. Method: candidates on one SQLite file that report what they do.
import { join } from "node:path";
import { expect, test } from "vitest";
import { leads, PATIENT_TIMING, useCandidates } from "../support/process/process-candidates.ts";
import type { Child } from "../support/process/process-children.ts";

const candidates = useCandidates();

test("the preferred candidate takes over from the end of the queue, and a killed one is skipped", async () => {
  const file = join(candidates.folder(), "tenure.db");
  const timing = PATIENT_TIMING;
  const leader = await candidates.start(file, { timing, name: "leader" });
  await leads(leader);
  const queue: Child[] = [];
  for (const name of ["second", "third", "fourth"]) {
    const next = await candidates.start(file, { timing, name });
    await next.heard("campaigning");
    queue.push(next);
  }
  const [second, third, fourth] = queue as [Child, Child, Child];
  leader.say({ preferred: "fourth", waitMs: 10_000 });
  const { token } = await leads(fourth);
  expect(await leader.heard("handed over")).toMatchObject({ successor: { holderId: "fourth" } });
  for (const other of [second, third])
    expect(other.told.filter(({ event }) => event === "leads")).toEqual([]);
  third.signal("SIGKILL");
  await third.exited;
  // Its place in the queue remains until its session is quiet or has expired, so the store may
  // still hand off to it. Then the next candidate follows when the ttl has passed.
  fourth.say({ preferred: "third", waitMs: 0 });
  const after = BigInt(String(token));
  await Promise.race([leads(second), leads(leader, after), leads(fourth, after)]);
});
