// Bugs that lose a lease without need, return one too early, or send and wait more than necessary.

import type { Mutant } from "../mutant.ts";

const machine = "src/core/session-machine.ts";
const advance = "src/holder/advance.ts";
const memory = "src/stores/memory/backend.ts";

export const LIVENESS_MUTANTS: readonly Mutant[] = [
  {
    name: "the first failed renewal ends the session",
    file: machine,
    find: `const failures = state.kind === "doubt" ? state.failures + 1 : 1;`,
    replace: `const failures = state.kind === "doubt" ? state.failures + 1 : 1;
  if (failures === 1) return outOfTime();`,
  },
  {
    name: "a renewal waits for the answer to the previous one",
    file: machine,
    find: `{ do: "renewAfter", delayMs: untilNextMs(state.sentAt, event.now, timing) },`,
    replace: "",
    test: "src/core/session-machine.test.ts",
  },
  {
    name: "a late answer to the opening delays the second renewal",
    file: machine,
    find: "return secondDueInMs > 0 ? Math.min(renewEveryMs, secondDueInMs) : renewEveryMs;",
    replace: "return renewEveryMs + 0 * secondDueInMs;",
    test: "src/core/lost-renewal.test.ts",
  },
  {
    name: "a retry may come later than the second renewal was due",
    file: machine,
    find: "event.sentAt + untilNextMs(state.sentAt, event.sentAt, timing);",
    replace: "event.sentAt + timing.renewEveryMs;",
    test: "src/core/lost-renewal.test.ts",
  },
  {
    name: "renewals are sent ten times as often",
    file: machine,
    find: 'event.sentAt + timing.renewEveryMs - event.now) },\n      { do: "checkAt"',
    replace: 'event.sentAt + timing.renewEveryMs / 10 - event.now) },\n      { do: "checkAt"',
  },
  {
    name: "guards are not advanced",
    file: advance,
    find: "guards.map(async (guard) => guard.advance(lease, { limitMs }));",
    replace: "guards.map(async (guard) => guard);",
  },
  {
    name: "the caller does not wait for guards to be advanced",
    file: advance,
    find: "await orAborted(Promise.all(advancing), signal);",
    replace: "void orAborted(Promise.all(advancing), signal).catch(() => undefined);",
  },
  {
    name: "sessions are kept for twice their ttl",
    file: memory,
    find: "  return renewedAt + ttlMs;",
    replace: "  return renewedAt + 2 * ttlMs;",
  },
];
