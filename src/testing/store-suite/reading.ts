// Reading, listing and watching: what readers see of a lease, and that ended leases are not shown.

import type { LeaseView, Store } from "../../stores/contract.ts";
import { type Bench, expect, expectTrue, LIMIT_MS } from "./harness.ts";

export const reading: Record<string, (bench: Bench) => Promise<void>> = {
  "a read returns holder, token, value and remaining time, with its evidence": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const value = { address: "10.0.0.7:9000", tags: ["a", null, 1.5], text: "\u{1f512}" };
    const token = await one.take("r", { value });
    for (const consistency of ["linearizable", "stale"] as const) {
      const answer = await (await bench.store()).read({
        resource: "r",
        consistency,
        limitMs: LIMIT_MS,
      });
      expect(answer.holder?.holderId, "holder of one", "the holder");
      expect(answer.holder?.token, token, "its token");
      expect(answer.holder?.value, value, "and its value, unchanged");
      const left = answer.holder?.expiresInMs ?? -1;
      const most = one.ttlMs + store.guarantees.expiryLagMs;
      expectTrue(left > 0 && left <= most, `between 0 and ${most} ms are left, got ${left}`);
      expect(answer.evidence.consistency, consistency, "the answer states its consistency");
    }
  },

  "a view states how long the lease has been held, and a renewal does not reset that": async (
    bench,
  ) => {
    const one = await bench.session(await bench.store(), "one");
    const attempt = one.newAttempt();
    const granting = await timed(bench, one.take("r", { attempt }));
    await expectHeldSince(bench, granting, "just granted");
    await bench.harness.sleep(HELD_MS);
    await expectHeldSince(bench, granting, "a while later");
    expect((await one.renew()).kind, "renewed", "the session lives");
    expect((await one.ask("r", { attempt })).kind, "granted", "the same request, repeated");
    await bench.harness.sleep(HELD_MS);
    await expectHeldSince(bench, granting, "after a renewal and a repeated request");
  },

  "the time that a waiter spent in the queue is not counted as held": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const two = await bench.session(store, "two");
    const token = await one.take("r");
    const attempt = await two.queue("r");
    await bench.harness.sleep(HELD_MS);
    const released = one.release("r", token).then(() => two.take("r", { attempt }));
    await expectHeldSince(bench, await timed(bench, released), "taken from the queue");
  },

  "a released or expired lease has no holder": async (bench) => {
    const store = await bench.store();
    const one = await bench.shortSession(store, "one");
    expect(await one.holder("r"), undefined, "never held");
    const token = await one.take("r");
    await one.release("r", token);
    expect(await one.holder("r"), undefined, "released");
    await one.take("r");
    await bench.expire(store);
    expect(await one.holder("r"), undefined, "expired");
  },

  "a listing returns the held leases with the prefix, page by page, in order": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one", bench.ttlMs * 20);
    for (const name of ["job/2", "job/1", "job/3", "jobs", "joc", "job", "job/\u{1f512}"])
      await one.take(name);
    const free = await one.take("job/free");
    await one.release("job/free", free);
    const seen: string[] = [];
    let after: string | undefined;
    do {
      const page = await store.list({ prefix: "job/", after, limit: 2, limitMs: LIMIT_MS });
      expectTrue(page.leases.length <= 2, "no page is larger than requested");
      seen.push(...page.leases.map((view) => view.resource));
      after = page.next;
    } while (after !== undefined);
    expect(seen, ["job/1", "job/2", "job/3", "job/\u{1f512}"], "exactly those, once each");
    const all = await store.list({ prefix: "", limit: 100, limitMs: LIMIT_MS });
    expect(all.leases.length, 7, "an empty prefix means all");
  },

  "a watch yields the held leases, then grants, releases and expiries in order": async (bench) => {
    const store = await bench.store();
    const keeper = await bench.session(store, "keeper", bench.ttlMs * 50);
    const first = await keeper.take("w/first");
    await keeper.take("elsewhere");
    const seen = await startWatching(bench, "w/");
    await seen.until("w/first held by keeper");
    await keeper.release("w/first", first);
    await seen.until("w/first free");
    const mortal = await bench.shortSession(store, "mortal");
    await mortal.take("w/second");
    await seen.until("w/second held by mortal");
    await bench.expire(store);
    await seen.until("w/second free");
    const expected = [
      "w/first held by keeper",
      "caught up",
      "w/first free",
      "w/second held by mortal",
      "w/second free",
    ];
    expect(await seen.stop(), expected, "all changes under the prefix, in order, and nothing else");
  },

  "a watch reports when it has yielded all held leases, even if there are none": async (bench) => {
    const keeper = await bench.session(await bench.store(), "keeper", bench.ttlMs * 50);
    const seen = await startWatching(bench, "w/");
    await seen.until("caught up");
    await keeper.take("w/first");
    await seen.until("w/first held by keeper");
    expect(await seen.stop(), ["caught up", "w/first held by keeper"], "free at first, then held");
  },
};

/** Much longer than the difference between two readings of one clock. */
const HELD_MS = 400;
/** The step of a coarse clock, and how far two clocks of one machine may drift during a test. */
const CLOCK_STEP_MS = 60;
/** A store may record the time of a handoff only after it. Until then a view reports 0. */
const RECORDED_WITHIN_MS = 5_000;

/** Something happened between these two times. */
interface Span {
  readonly from: number;
  readonly to: number;
}

async function timed(bench: Bench, step: Promise<unknown>): Promise<Span> {
  const from = bench.harness.now();
  await step;
  return { from, to: bench.harness.now() };
}

/** Checks `heldForMs` from another client, by read, list and watch. */
async function expectHeldSince(bench: Bench, granting: Span, when: string): Promise<void> {
  const store = await bench.store();
  const ways: Record<string, () => Promise<LeaseView | undefined>> = {
    read: () => store.read({ resource: "r", consistency: "linearizable", limitMs: LIMIT_MS }),
    list: async () => (await store.list({ prefix: "r", limit: 1, limitMs: LIMIT_MS })).leases[0],
    watch: () => readFirst(store, "r"),
  };
  const measure = async (readView: () => Promise<LeaseView | undefined>) => {
    const from = bench.harness.now();
    const held = (await readView())?.holder?.heldForMs;
    const least = from - granting.to - CLOCK_STEP_MS;
    return { held, least, most: bench.harness.now() - granting.from + CLOCK_STEP_MS };
  };
  for (const [way, readView] of Object.entries(ways)) {
    let found = await measure(readView);
    while (found.held === 0 && found.least > 0 && found.least < RECORDED_WITHIN_MS) {
      await bench.harness.sleep(CLOCK_STEP_MS);
      found = await measure(readView);
    }
    const { held, least, most } = found;
    expectTrue(
      held !== undefined && held >= Math.max(0, least) && held <= most,
      `${way}, ${when}: held for ${least} to ${most} ms, got ${held}`,
    );
  }
}

/** The first view that a watch yields. */
async function readFirst(store: Store, prefix: string): Promise<LeaseView | undefined> {
  const stop = new AbortController();
  for await (const view of store.watch({ prefix, signal: stop.signal })) return view;
  return undefined;
}

interface Watching {
  until(event: string): Promise<void>;
  /** Returns the events in order, with only the first "caught up". */
  stop(): Promise<readonly string[]>;
}

/** Much longer than a watch takes. The steps are small, because it usually takes milliseconds. */
const EVENT_MAX_STEPS = 500;
const EVENT_STEP_MS = 10;

async function startWatching(bench: Bench, prefix: string): Promise<Watching> {
  const stop = new AbortController();
  const events: string[] = [];
  const onCaughtUp = (): void => {
    if (!events.includes("caught up")) events.push("caught up");
  };
  const { signal } = stop;
  const watching = collect((await bench.store()).watch({ prefix, signal, onCaughtUp }), events);
  return {
    until: async (event) => {
      for (let step = 0; step < EVENT_MAX_STEPS && !events.includes(event); step += 1)
        await bench.harness.sleep(EVENT_STEP_MS);
      expectTrue(
        events.includes(event),
        `the watch yields "${event}", not only ${events.join(", ")}`,
      );
    },
    stop: async () => {
      stop.abort();
      await bench.harness.sleep(1);
      await watching;
      return events;
    },
  };
}

async function collect(views: AsyncIterable<LeaseView>, events: string[]): Promise<void> {
  for await (const view of views) {
    const who = view.holder?.sessionId;
    events.push(`${view.resource} ${who === undefined ? "free" : `held by ${who}`}`);
  }
}
