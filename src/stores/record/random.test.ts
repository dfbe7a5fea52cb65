// Goal: no sequence of requests, delays and faults violates S1, S3, S4 or S5. Method: several
// processes send random requests to one mock, which delays and loses requests, answers and pushes.
// Afterwards the log of applied writes is checked. A failure names its seed.

import { expect, test } from "vitest";
import { type LoggedWrite, RecordMock } from "../../../test/support/stores/record-mock.ts";
import { pause } from "../../async/waits.ts";
import { ManualClock, manualRandom } from "../../testing/index.ts";
import type { Grant, Store } from "../contract.ts";
import { recordStore } from "./store.ts";

const SEEDS = 100;
/** Few, so that a test ends in time on a busy machine. */
const SEEDS_PER_TEST = 4;
const STEPS = 80;
const TTL_MS = 3_000;
const LIMIT_MS = 1_000;
const RESOURCES = ["a", "b"];

/** A small generator of pseudorandom numbers from 0 to 1 (mulberry32). */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

interface Process {
  readonly name: string;
  readonly store: Store;
  readonly sessionId: string;
  attempts: number;
  /** The leases that this process knows of, by resource. */
  readonly held: Map<string, bigint>;
  readonly asked: { resource: string; attempt: string }[];
}

class World {
  readonly clock = new ManualClock();
  readonly mock: RecordMock;
  readonly #next: () => number;
  readonly #ids = manualRandom();
  readonly #processes: Process[] = [];
  #started = 0;

  constructor(seed: number) {
    this.#next = generator(seed);
    const [push, conflictRecords, digests] = [this.#one(2), this.#one(2), this.#one(2)];
    this.mock = new RecordMock({
      push: push === 1,
      conflictRecords: conflictRecords === 1,
      digests: digests === 1,
    });
    this.mock.now = () => this.clock.now();
    // Requests take up to 150 ms, so that they overtake one another.
    this.mock.before = () => pause(this.clock, this.#one(150));
  }

  #one(count: number): number {
    return Math.floor(this.#next() * count);
  }

  async run(): Promise<void> {
    for (let index = 0; index < 3; index += 1) await this.#start();
    for (let step = 0; step < STEPS; step += 1) {
      this.#disturb();
      const one = this.#processes[this.#one(this.#processes.length)];
      if (one !== undefined) this.#act(one);
      await this.clock.advance(this.#one(4) === 0 ? this.#one(1_500) : this.#one(60));
    }
    Object.assign(this.mock.faults, { lostReplies: 0, lostWrites: 0, delayedWrites: 0 });
    await this.clock.advance(2 * LIMIT_MS);
    for (const { store } of this.#processes) await store.close();
    await this.clock.advance(1);
  }

  async #start(): Promise<void> {
    const name = `p${++this.#started}`;
    const { clock } = this;
    const random = { id: () => this.#ids.id(), next: this.#next };
    const parts = { clock, hostClock: clock.hostClock, random, warn: () => undefined };
    const store = await recordStore(async () => this.mock.connect(name))(parts);
    const started: Process = {
      name,
      store,
      sessionId: name,
      attempts: 0,
      held: new Map(),
      asked: [],
    };
    const granted = ({ resource, token }: Grant): void => void started.held.set(resource, token);
    const events = { granted, lost: () => undefined, wanted: () => undefined };
    const request = { sessionId: name, holderId: name, ttlMs: TTL_MS, quietAfterMs: 1_500 };
    const opening = store.openSession({ ...request, events, limitMs: LIMIT_MS });
    opening.then(() => this.#processes.push(started)).catch(() => store.close());
    await clock.advance(200);
  }

  #disturb(): void {
    const { faults } = this.mock;
    const kind = this.#one(24);
    if (kind === 0) faults.lostReplies += 1;
    if (kind === 1) faults.lostWrites += 1;
    if (kind === 2) faults.delayedWrites += 1;
    if (kind === 3) faults.failedReads += 1;
    if (kind === 4) faults.lostPushes += 2;
    if (kind === 5) faults.rejectedWrites += 1;
    if (kind === 6) this.mock.deliver();
    if (kind === 7) faults.staleReads += 1;
  }

  /** Sends a random request without awaiting it. */
  #act(one: Process): void {
    const { store, sessionId } = one;
    const resource = RESOURCES[this.#one(RESOURCES.length)] ?? "a";
    const base = { sessionId, limitMs: LIMIT_MS };
    const action = this.#one(20);
    const token = one.held.get(resource);
    if (action < 5) void this.#ask(one, resource, this.#one(3) > 0);
    else if (action < 8 && token !== undefined) {
      one.held.delete(resource);
      store.release({ ...base, resource, token }).catch(() => undefined);
    } else if (action < 10 && one.asked.length > 0) {
      const { attempt, resource: wanted } = one.asked[this.#one(one.asked.length)] ?? {};
      if (attempt === undefined || wanted === undefined) return;
      store.withdraw({ ...base, resource: wanted, attempt }).catch(() => undefined);
    } else if (action === 10 && token !== undefined)
      store.revoke({ resource, token, limitMs: LIMIT_MS }).catch(() => undefined);
    else if (action === 11 && this.#one(4) === 0) this.#replace(one, store.close());
    else if (action === 12 && this.#one(3) === 0) this.#replace(one, store.endSession(base));
    else void this.#renew(one);
  }

  async #ask(one: Process, resource: string, queue: boolean): Promise<void> {
    const attempt = `${one.name}.${++one.attempts}`;
    const request = { sessionId: one.sessionId, resource, attempt, holderId: one.name, queue };
    one.asked.push({ resource, attempt });
    const outcome = await one.store.grant({ ...request, limitMs: LIMIT_MS }).catch(() => undefined);
    if (outcome?.kind === "granted") one.held.set(resource, outcome.token);
  }

  async #renew(one: Process): Promise<void> {
    const request = { sessionId: one.sessionId, withdrawn: [], acknowledged: [] };
    const outcome = await one.store.renew({ ...request, limitMs: LIMIT_MS }).catch(() => undefined);
    if (outcome?.kind === "gone") this.#replace(one, one.store.close());
  }

  #replace(one: Process, ending: Promise<unknown>): void {
    const index = this.#processes.indexOf(one);
    if (index < 0) return;
    this.#processes.splice(index, 1);
    ending.then(() => one.store.close()).catch(() => undefined);
    void this.#start().catch(() => undefined);
  }
}

interface SessionState {
  readonly at: number;
  readonly fields: { beat: number; ended: boolean; revoked: [string, string][] };
  readonly beatAt: number;
}

/** Every rule that the log violates. */
function findViolations(log: readonly LoggedWrite[]): string[] {
  const found: string[] = [];
  const sessions = new Map<string, SessionState>();
  const removed = new Set<string>();
  const leases = new Map<string, { token?: string; held?: { session: string } }>();
  for (const { key, body, by, at } of log) {
    const fields = JSON.parse(body);
    const name = key.slice(key.indexOf("/") + 1);
    if (fields === null) {
      // A late copy of the write that created it can still arrive, and creates a session that no
      // process uses.
      removed.add(name);
    } else if (key.startsWith("session/")) {
      const before = sessions.get(name);
      if (before?.fields.ended && !fields.ended && !removed.has(name))
        found.push(`S5: ${name} was revived`);
      const isBeat = before?.fields.beat !== fields.beat;
      if (isBeat && by !== name && !fields.ended) found.push(`S5: ${by} renewed ${name}`);
      const beatAt = before === undefined || isBeat ? at : before.beatAt;
      const isEnded = fields.ended && before?.fields.ended === false;
      if (isEnded && by !== name && at < beatAt + TTL_MS)
        found.push(`S3: ${by} ended ${name} ${at - beatAt} ms after its beat`);
      sessions.set(name, { at, fields, beatAt });
    } else {
      const before = leases.get(name) ?? {};
      const [last, token] = [BigInt(before.token ?? 0), BigInt(fields.token ?? 0)];
      const holder = before.held?.session;
      const isSame = holder === fields.held?.session && last === token;
      if (token < last) found.push(`S1: the token of ${name} fell from ${last} to ${token}`);
      if (fields.held !== undefined && !isSame && token <= last)
        found.push(`S1: ${fields.held.session} was granted ${name} with ${token} after ${last}`);
      if (holder !== undefined && !isSame && by !== holder) {
        const state = sessions.get(holder)?.fields;
        const isRevoked = state?.revoked.some(([each, of]) => each === name && of === before.token);
        if (state?.ended !== true && isRevoked !== true)
          found.push(`S4: ${by} took ${name} from ${holder}, which is alive`);
      }
      leases.set(name, fields);
    }
  }
  return found;
}

const starts = Array.from({ length: SEEDS / SEEDS_PER_TEST }, (_, index) => index * SEEDS_PER_TEST);

test.each(starts)("S1, S3, S4, S5: random requests and faults, after seed %d", async (start) => {
  let grants = 0;
  for (let seed = start + 1; seed <= start + SEEDS_PER_TEST; seed += 1) {
    const world = new World(seed);
    await world.run();
    const { log } = world.mock;
    expect([seed, findViolations(log)]).toEqual([seed, []]);
    grants += log.filter(({ body }) => body.includes('"held"')).length;
  }
  // The sequences do something.
  expect(grants).toBeGreaterThan(SEEDS_PER_TEST * 5);
});
