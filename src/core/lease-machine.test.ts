// Goal: S6, a release is sent only when no work runs, and an ended lease does nothing more. Method:
// random events; the test counts the running work itself and compares every step with that count.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  HELD,
  type LeaseCommand,
  type LeaseEvent,
  type LeaseState,
  type LeaseStep,
  mayAct,
  stepLease,
} from "./lease-machine.ts";

const anyEvent: fc.Arbitrary<LeaseEvent> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<LeaseEvent>({ type: "workStarted" }) },
  { weight: 4, arbitrary: fc.constant<LeaseEvent>({ type: "workSettled" }) },
  { weight: 2, arbitrary: fc.constant<LeaseEvent>({ type: "drain" }) },
  { weight: 2, arbitrary: fc.constant<LeaseEvent>({ type: "drainLimit" }) },
  { weight: 2, arbitrary: fc.constant<LeaseEvent>({ type: "releaseAnswered" }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<LeaseEvent>(
      { type: "lost", reason: "expired", detail: "out of time" },
      { type: "lost", reason: "revoked", detail: "a third party" },
    ),
  },
);
const anyEvents = fc.array(anyEvent, { maxLength: 40 });

interface Seen {
  readonly before: LeaseState;
  readonly event: LeaseEvent;
  readonly step: LeaseStep;
  /** The work that runs after this event, as the holder would count it. */
  readonly running: number;
}

/** Like the holder: work starts only if the state allows it, and settles only if it has started. */
function walk(events: readonly LeaseEvent[]): Seen[] {
  const seen: Seen[] = [];
  let state = HELD;
  let running = 0;
  for (const event of events) {
    if (event.type === "workSettled" && running === 0) continue;
    if (event.type === "workStarted" && state.kind === "held") running += 1;
    if (event.type === "workSettled") running -= 1;
    const step = stepLease(state, event);
    seen.push({ before: state, event, step, running });
    state = step.state;
  }
  return seen;
}

function check(judge: (seen: readonly Seen[]) => void): void {
  fc.assert(
    fc.property(anyEvents, (events) => judge(walk(events))),
    { numRuns: 2_000 },
  );
}

function commands(seen: readonly Seen[], what: LeaseCommand["do"]): LeaseCommand[] {
  return seen.flatMap(({ step }) => step.commands).filter((command) => command.do === what);
}

describe("release", () => {
  test("S6: a release is sent only when no work runs", () => {
    check((seen) => {
      for (const { step, running } of seen) {
        if (step.commands.some((command) => command.do === "release")) expect(running).toBe(0);
      }
    });
  });

  test("S6: a lost lease is never released, even after its work has settled", () => {
    check((seen) => {
      const lostAt = seen.findIndex(({ event }) => event.type === "lost");
      if (lostAt >= 0) expect(commands(seen.slice(lostAt), "release")).toEqual([]);
    });
  });

  test("a release is sent at most once, and after a drain as soon as the work has settled", () => {
    check((seen) => {
      expect(commands(seen, "release").length).toBeLessThanOrEqual(1);
      const last = seen.at(-1);
      if (last?.step.state.kind === "draining") expect(last.running).toBeGreaterThan(0);
      if (last?.step.state.kind === "releasing") expect(commands(seen, "release")).toHaveLength(1);
    });
  });
});

describe("work", () => {
  test("S6: no work starts while draining, releasing or ended", () => {
    check((seen) => {
      for (const { before, event, step } of seen) {
        if (event.type === "workStarted" && before.kind !== "held") {
          expect(step).toEqual({ state: before, commands: [] });
        }
      }
    });
  });

  test("the machine's count equals the running work", () => {
    check((seen) => {
      for (const { step, running } of seen) {
        if ("work" in step.state) expect(step.state.work).toBe(running);
      }
    });
  });

  test("the count never falls below zero, even for settled work that never started", () => {
    fc.assert(
      fc.property(anyEvents, (events) => {
        let state = HELD;
        for (const event of events) {
          state = stepLease(state, event).state;
          if ("work" in state) expect(state.work).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });

  test("the token may be used while the lease is held or draining, and not later", () => {
    check((seen) => {
      for (const { step } of seen) {
        expect(mayAct(step.state)).toBe(["held", "draining"].includes(step.state.kind));
      }
    });
  });
});

describe("the end of a lease", () => {
  test("after the end nothing happens", () => {
    check((seen) => {
      for (const { before, step } of seen) {
        if (before.kind === "ended") expect(step).toEqual({ state: before, commands: [] });
      }
    });
  });

  test("the signal aborts when the token becomes unusable, and `finish` is emitted exactly once", () => {
    check((seen) => {
      const ended = seen.some(({ step }) => step.state.kind === "ended");
      expect(commands(seen, "finish")).toHaveLength(ended ? 1 : 0);
      const aborting = seen.filter(({ step }) =>
        step.commands.some(({ do: what }) => what === "abort"),
      );
      // At the end at the latest; once before that if the work outlived the drain.
      expect(aborting.map(({ step }) => step.state.kind)).toEqual([
        ...(seen.some(({ step }) => step.state.kind === "overrun") ? ["overrun"] : []),
        ...(ended ? ["ended"] : []),
      ]);
    });
  });

  test("a lease ends for the given reason, or as released", () => {
    check((seen) => {
      for (const { before, event, step } of seen) {
        if (before.kind === "ended" || step.state.kind !== "ended") continue;
        expect(step.state.reason).toBe(event.type === "lost" ? event.reason : "released");
      }
    });
  });

  test("a lease whose work outlives the drain limit ends as released", () => {
    const seen = walk([
      { type: "workStarted" },
      { type: "drain" },
      { type: "drainLimit" },
      { type: "workSettled" },
      { type: "releaseAnswered" },
    ]);
    expect(seen.map(({ step }) => step.state.kind)).toEqual([
      "held",
      "draining",
      "overrun",
      "releasing",
      "ended",
    ]);
    expect(seen.at(2)?.step.commands).toEqual([
      { do: "abort", reason: "released", detail: "its work outlived the drain" },
    ]);
  });
});
