// Goal: a failed assertion throws and names its rule. Method: failing assertions, and unknown
// events and states.
import { expect, test } from "vitest";
import { assert, assertNever } from "./assert.ts";
import { HELD, type LeaseEvent, type LeaseState, stepLease } from "./lease-machine.ts";
import { openSession, type SessionEvent, stepSession } from "./session-machine.ts";
import { planTiming } from "./timing.ts";

test("a true condition does nothing, and a false one throws the rule", () => {
  assert(true, "never seen");
  expect(() => assert(0, "work is counted")).toThrow(/broke its own rule: work is counted/);
});

test("assertNever() names the unexpected value", () => {
  expect(() => assertNever("odd" as never)).toThrow('a value it does not know: "odd"');
});

test("the machines reject an unknown event or state", () => {
  const odd = { type: "odd" };
  expect(() => stepLease(HELD, odd as unknown as LeaseEvent)).toThrow('{"type":"odd"}');
  const oddState = { kind: "odd" } as unknown as LeaseState;
  expect(() => stepLease(oddState, { type: "workSettled" })).toThrow('{"kind":"odd"}');
  const timing = planTiming();
  const { state } = openSession({ sentAt: 0, now: 0, grantedTtlMs: timing.ttlMs }, timing);
  expect(() => stepSession(state, odd as unknown as SessionEvent, timing)).toThrow("does not know");
});
