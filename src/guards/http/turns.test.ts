// Goal: comparison and handler are one step, in every order in which the guard's answers can come. Method: a guard whose
// answers the test holds back.

import { expect, test } from "vitest";
import { memoryGuard } from "../memory.ts";
import { Turns } from "./turns.ts";

const source = (token: bigint) => ({ resource: "r", token });
const soon = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** What has become of an attempt to enter, as far as one can see now. */
function entering(turns: Turns, token: bigint): { state: string; leave: () => void } {
  const seen = { state: "waiting", leave: (): void => undefined };
  turns.enter(source(token)).then(
    (leave) => Object.assign(seen, { state: "in", leave }),
    (error: { code?: string }) => Object.assign(seen, { state: error.code ?? "failed" }),
  );
  return seen;
}

test("S2: one whose comparison passed, and whose answer is still under way, is waited for by a newer one", async () => {
  const guard = memoryGuard();
  let answer = (): void => undefined;
  const late = {
    highest: guard.highest,
    raise: async (given?: { resource: string; token: bigint }) => {
      guard.raise(given);
      if (given?.token === 1n) await new Promise<void>((resolve) => (answer = resolve));
    },
  };
  const turns = new Turns(late);
  const old = entering(turns, 1n);
  await soon();
  const fresh = entering(turns, 2n);
  await soon();
  expect([old.state, fresh.state]).toEqual(["waiting", "waiting"]);
  answer();
  await soon();
  expect([old.state, fresh.state]).toEqual(["in", "waiting"]);
  old.leave();
  await soon();
  expect(fresh.state).toBe("in");
});

test("S2: one that waited is compared again, since a still newer one may have come", async () => {
  const turns = new Turns(memoryGuard());
  const first = entering(turns, 1n);
  await soon();
  const second = entering(turns, 2n);
  await soon();
  const third = entering(turns, 3n);
  await soon();
  expect([first.state, second.state, third.state]).toEqual(["in", "waiting", "waiting"]);
  first.leave();
  await soon();
  expect([second.state, third.state]).toEqual(["STALE_TOKEN", "in"]);
});

test("those of one token go side by side, and resources do not know each other", async () => {
  const turns = new Turns(memoryGuard());
  const [one, two] = [entering(turns, 5n), entering(turns, 5n)];
  await soon();
  expect([one.state, two.state]).toEqual(["in", "in"]);
  const leave = await turns.enter({ resource: "other", token: 9n });
  leave();
});

test("more than a thousand at a time are refused, and places are given back", async () => {
  const turns = new Turns(memoryGuard());
  const crowd = Array.from({ length: 1_001 }, () => entering(turns, 1n));
  await soon();
  expect(crowd.filter(({ state }) => state === "in")).toHaveLength(1_000);
  expect(crowd.at(-1)?.state).toBe("failed");
  for (const { leave } of crowd) leave();
  const next = entering(turns, 2n);
  await soon();
  expect(next.state).toBe("in");
});
