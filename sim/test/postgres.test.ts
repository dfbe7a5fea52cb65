// Goal: a failover to a standby that is behind lets no token fall, and its holders learn what it
// had missed; the model forgets only beyond the bounds. Method: the real store on the model's
// tables, copied, promoted and answered late by hand; and whole days.

import { describe, expect, test } from "vitest";
import type { Call, PgLink, Row } from "../../src/clients/postgres/link.ts";
import { encodeRecord } from "../../src/core/record.ts";
import type { GrantRequest, Store } from "../../src/stores/contract.ts";
import { openOnLink } from "../../src/stores/postgres/open-store.ts";
import { ManualClock, manualRandom } from "../../src/testing/index.ts";
import { checkTrace } from "../checkers/judge.ts";
import { createPlan } from "../faults/plan.ts";
import { simHost } from "../host/sim-host.ts";
import { Database } from "../models/postgres/database.ts";
import { acquire, openSession } from "../models/postgres/functions.ts";
import { runStatement, SCHEMA } from "../models/postgres/statements.ts";
import { runSeed } from "../run.ts";
import type { TraceEvent } from "../world/trace.ts";

const SESSION = { sessionId: "s", limitMs: 1_000 };
const RENEWAL = { ...SESSION, withdrawn: [], acknowledged: [] };

interface World {
  readonly db: Database;
  readonly store: Store;
  /** The server's wall clock, in microseconds. */
  setClock(micros: number): void;
  /**
   * The next statement with this text is carried out at once, and answered when what is returned is
   * called.
   */
  holdAnswer(text: string): () => void;
}

/** Of the server, at first. */
const START = 1_700_000_000_000_000;

async function world(): Promise<World> {
  const clock = new ManualClock();
  const nobody = (): void => undefined;
  let micros = START;
  const db = new Database({
    witness: { granted: nobody, freed: nobody, kept: nobody },
    ...{ now: () => micros, notify: nobody, isLocked: () => false },
  });
  const held = new Map<string, Promise<void>>();
  const query = async ({ text, values }: Call): Promise<readonly Row[]> => {
    const rows = runStatement(db, text, values);
    for (const [part, until] of held) {
      if (!text.includes(part)) continue;
      held.delete(part);
      await until;
    }
    return rows;
  };
  const link: PgLink = {
    ...{ library: "pg", address: "the model", query, listen: undefined },
    close: () => Promise.resolve(),
  };
  const settings = { schema: SCHEMA, createSchema: true, listens: false, giveUpAt: 1_000 };
  const parts = { clock, hostClock: clock.hostClock, random: manualRandom() };
  const store = await openOnLink(link, settings, parts);
  await store.openSession({ ...SESSION, holderId: "h", ttlMs: 10_000 });
  return {
    ...{ db, store },
    setClock: (to) => {
      micros = to;
    },
    holdAnswer: (text) => {
      let answer = nobody;
      const until = new Promise<void>((resolve) => {
        answer = resolve;
      });
      held.set(text, until);
      return () => answer();
    },
  };
}

function asking(resource: string, attempt = `for ${resource}`): GrantRequest {
  return { ...SESSION, holderId: "h", resource, attempt, queue: false };
}

async function granted(store: Store, resource: string, attempt?: string): Promise<bigint> {
  const outcome = await store.grant(asking(resource, attempt));
  if (outcome.kind !== "granted") throw new Error(outcome.kind);
  return outcome.token;
}

/** Everything that waits for nothing happens. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

describe("a standby that is behind takes over", () => {
  test("S1: tokens are above all that the old primary gave", async () => {
    const { db, store } = await world();
    const copy = db.copy();
    const missed = await granted(store, "r");
    db.promote(copy);
    expect(await granted(store, "r", "again")).toBeGreaterThan(missed);
  });

  test("S1: tokens are above those of the old primary when the standby's clock is behind", async () => {
    const { db, store, setClock } = await world();
    const copy = db.copy();
    setClock(START + 1_000_000);
    const missed = await granted(store, "new since the copy");
    db.promote(copy);
    setClock(START - 5_000_000);
    expect(await granted(store, "new since the copy", "again")).toBeGreaterThan(missed);
  });

  test("S6: the next renewal tells what it had missed, once, and nothing else", async () => {
    const { db, store } = await world();
    await store.grant(asking("kept"));
    const copy = db.copy();
    const token = await granted(store, "missed");
    expect(await store.renew(RENEWAL)).toMatchObject({ kind: "renewed", gone: [] });
    db.promote(copy);
    const gone = [{ resource: "missed", token }];
    expect(await store.renew(RENEWAL)).toMatchObject({ kind: "renewed", gone });
    expect(await store.renew(RENEWAL)).toMatchObject({ kind: "renewed", gone: [] });
    await store.grant(asking("later"));
    db.promote(db.copy());
    expect(await store.renew(RENEWAL)).toMatchObject({ kind: "renewed", gone: [] });
  });

  test("S6: a lease that was taken from a session that had missed its own grant is gone, whatever its token", async () => {
    const { db, store } = await world();
    const copy = db.copy();
    const token = await granted(store, "r");
    db.promote(copy);
    await store.openSession({ sessionId: "t", limitMs: 1_000, holderId: "g", ttlMs: 10_000 });
    await store.grant({ ...asking("r", "by t"), sessionId: "t" });
    const gone = [{ resource: "r", token }];
    expect(await store.renew(RENEWAL)).toMatchObject({ kind: "renewed", gone });
    expect(await store.renew({ ...RENEWAL, sessionId: "t" })).toMatchObject({ gone: [] });
  });

  test("S6: an older lease of the same session, whose release was lost, is not taken for the newer one", async () => {
    const { db, store } = await world();
    const first = await granted(store, "r");
    const copy = db.copy();
    await store.release({ ...SESSION, resource: "r", token: first });
    const token = await granted(store, "r", "again");
    db.promote(copy);
    const gone = [{ resource: "r", token }];
    expect(await store.renew(RENEWAL)).toMatchObject({ kind: "renewed", gone });
  });

  test("S6: what the first standby had is looked for again at the second", async () => {
    const { db, store, setClock } = await world();
    const copy = db.copy();
    const token = await granted(store, "r");
    db.promote(db.copy());
    expect(await store.renew(RENEWAL)).toMatchObject({ kind: "renewed", gone: [] });
    setClock(START + 1_000);
    db.promote(copy);
    const gone = [{ resource: "r", token }];
    expect(await store.renew(RENEWAL)).toMatchObject({ kind: "renewed", gone });
  });

  test("S6: a lease that is released while the renewal looks for it is not said to be gone", async () => {
    const { db, store, holdAnswer } = await world();
    const copy = db.copy();
    const token = await granted(store, "r");
    db.promote(copy);
    const answer = holdAnswer("ANY($1");
    const renewal = store.renew(RENEWAL);
    await turns();
    await store.release({ ...SESSION, resource: "r", token });
    answer();
    expect(await renewal).toMatchObject({ kind: "renewed", gone: [] });
  });

  test("S6: a late release of an older lease does not hide the loss of the newer one", async () => {
    const { db, store, holdAnswer } = await world();
    const copy = db.copy();
    const first = await granted(store, "r");
    const answer = holdAnswer("release(");
    const releasing = store.release({ ...SESSION, resource: "r", token: first });
    const token = await granted(store, "r", "again");
    answer();
    expect(await releasing).toEqual({ kind: "released" });
    db.promote(copy);
    const gone = [{ resource: "r", token }];
    expect(await store.renew(RENEWAL)).toMatchObject({ kind: "renewed", gone });
  });

  test("S6: a grant that the old primary answered late is not believed when the standby had missed it", async () => {
    const { db, store, holdAnswer } = await world();
    const copy = db.copy();
    const answer = holdAnswer("acquire(");
    const late = store.grant(asking("r"));
    const answerRenewal = holdAnswer("renew(");
    const lateRenewal = store.renew(RENEWAL);
    await turns();
    db.promote(copy);
    await store.renew(RENEWAL);
    answerRenewal();
    await lateRenewal;
    // Past the store, which asks for one resource one at a time.
    const record = encodeRecord({ holderId: "g", sessionId: "t", attempt: "by t", value: 1 });
    openSession(db, "t", "g", 10_000);
    acquire(db, { resource: "r", session: "t", attempt: "by t", record }, false);
    answer();
    await expect(late).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
    // Asked again, as the holder does, it is the new primary's to decide.
    expect(await store.grant(asking("r"))).toEqual({ kind: "busy", holderId: "g" });
  });

  test("a grant that the old primary answered late is believed when the standby had it", async () => {
    const { db, store, holdAnswer } = await world();
    const answer = holdAnswer("acquire(");
    const late = store.grant(asking("r"));
    await turns();
    db.promote(db.copy());
    await store.renew(RENEWAL);
    answer();
    expect(await late).toEqual({ kind: "granted", token: db.leases.get("r")?.token });
  });
});

describe("a day", () => {
  const seeds = Array.from({ length: 120 }, (_, index) => index + 1);
  const isBeyond = (seed: number): boolean => createPlan(seed, "postgres").isBeyondBounds;
  const faults = async (seed: number): Promise<string[]> => {
    const { result } = await runSeed(seed, "postgres", simHost);
    return ["failover", "server's clock set"].filter((fault) => result.trace.faults.has(fault));
  };

  test("beyond the bounds has a standby that is behind, or a clock that is set", async () => {
    const seen = new Set<string>();
    for (const seed of seeds.filter(isBeyond))
      for (const fault of await faults(seed)) seen.add(fault);
    expect(seen.size).toBe(2);
  });

  test("within the bounds has neither", async () => {
    for (const seed of seeds.filter((one) => !isBeyond(one)).slice(0, 12))
      expect(await faults(seed), `seed ${seed}`).toEqual([]);
  });

  test.each([
    ["S1 where the store keeps it", [["S1"]], 1],
    ["nothing but the guard where it keeps nothing", [[]], 0],
    ["what it has kept each time", [["S1"], []], 0],
    ["what it has kept each time, whichever was first", [[], ["S1"]], 0],
  ])("on which the store forgot is judged by %s", (_, times, found) => {
    const granted = { kind: "storeGranted", resource: "r", token: 1n } as const;
    const events: TraceEvent[] = [
      { at: 1, who: "store", ...granted, session: "s", attempt: "one" },
      ...times.map((keeps) => ({ at: 2, who: "store", kind: "storeForgot", keeps }) as const),
      { at: 3, who: "store", ...granted, session: "t", attempt: "two" },
    ];
    const broken = checkTrace(createPlan(1, "postgres"), events).map(({ invariant }) => invariant);
    expect(broken.filter((invariant) => invariant === "S1")).toHaveLength(found);
  });
});
