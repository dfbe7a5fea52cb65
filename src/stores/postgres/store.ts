// The store contract on PostgreSQL. grant.sql.ts decides inside the database, by the clock of the
// database alone. batch.ts sends grants and releases, wait.ts reports to waiters and holders what
// other processes did, and given-back.ts repeats releases that a failover has undone.

import { linkSignals } from "../../async/signals.ts";
import type { PgLink } from "../../clients/postgres/link.ts";
import { closeInTime, type Requests } from "../../clients/postgres/requests.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { decodeNotices, decodeToken, encodeRecord, shownRecord } from "../../core/record.ts";
import { formatToken } from "../../core/token.ts";
import type * as contract from "../contract.ts";
import type { Store, StoreParts } from "../contract.ts";
import { changes, firstExpiryMs } from "../shared/changes.ts";
import { EraTracker } from "../shared/era-tracker.ts";
import { Wakeup } from "../shared/wakeup.ts";
import { Batch, type Step, type StepAnswer, toRegrant } from "./batch.ts";
import { RecentlyGivenBack } from "./given-back.ts";
import { CALL, FACTS, readHeld, readKept, readOne } from "./statements.ts";
import { Notices, POLL_MS } from "./wait.ts";

/** For requests that have no limit of their own: of watches, polls and expiry checks. */
const OWN_LIMIT_MS = 5_000;
const WATCH_PAUSE_MS = 1_000;
/** How long the database keeps a watcher, and how often that is renewed. */
const WATCH_TTL_S = 30;
const WATCH_RENEW_MS = 10_000;

export interface PostgresParts {
  readonly link: PgLink;
  readonly requests: Requests;
  readonly listens: boolean;
  /** Whether what the server has committed survives a crash of its host. */
  readonly durable: boolean;
}

/** The answer of the function `renew` in session.sql.ts. */
interface Renewed {
  readonly ttlMs: number;
  readonly floor: string;
  readonly gone: [resource: string, token: string][];
  readonly granted: [resource: string, token: string, attempt: string][];
  readonly wanted: [resource: string, token: string][];
  readonly waiting: [attempt: string, resource: string, checkInMs: number | null][];
}

export class PostgresStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #link: PgLink;
  readonly #requests: Requests;
  readonly #parts: StoreParts;
  /** On which the database notifies this process. Empty: it does not listen. */
  readonly #channel: string;
  readonly #batch: Batch;
  readonly #notices: Notices;
  readonly #eras = new EraTracker();
  readonly #givenBack = new RecentlyGivenBack();
  readonly #closing = new AbortController();

  constructor({ link, requests, listens, durable }: PostgresParts, parts: StoreParts) {
    this.#link = link;
    this.#requests = requests;
    this.#parts = parts;
    const { clock, random } = parts;
    const isPush = listens && link.listen !== undefined;
    this.#channel = isPush ? `tenure_${random.id()}`.slice(0, 63) : "";
    this.#batch = new Batch(clock, (steps, waits, limitMs) => this.#step(steps, waits, limitMs));
    this.#notices = new Notices({
      link,
      clock,
      random,
      channel: this.#channel,
      notify: (payload) => this.#call(CALL.notify, [this.#channel, payload], OWN_LIMIT_MS),
      // A late notification of a former primary. If the grant exists, the next renewal reports it.
      isCurrent: (fact) => fact.kind !== "granted" || !this.#eras.isOutdated(fact.grant.token),
      onFact: (fact) => {
        if (fact.kind === "granted") this.#eras.add(fact.session, fact.grant);
        if (fact.kind === "lost") this.#noteReleased({ sessionId: fact.session, ...fact.ref });
      },
      readFacts: (sessions) => this.#readFacts(sessions),
      checkExpiry: (resource, session) => this.#checkExpiry(resource, session),
    });
    this.guarantees = {
      store: "postgres",
      tokenSource:
        "a counter in the resource's row that starts at the server's wall clock, raised by the granting statement",
      tokenFalls:
        "when rows are lost and the server's wall clock was set back; when a virtual machine is reset to a snapshot of its memory; when a standby that has missed several starts of the old primary within minutes is promoted",
      expiryClock: "the database server's clock",
      ttlStepMs: 1,
      expiryLagMs: 1,
      wakeUp: isPush ? "push" : "poll",
      fifo: true,
      durable,
    };
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    const { sessionId, holderId, limitMs, events } = request;
    const ttlMs = Math.ceil(request.ttlMs);
    const quietAfterMs = Math.ceil(request.quietAfterMs ?? ttlMs);
    const channel = events === undefined ? "" : this.#channel;
    const values = [sessionId, holderId, String(ttlMs), String(quietAfterMs), channel];
    const floor = await this.#write(CALL.openSession, values, limitMs);
    this.#noteEra(decodeToken(floor), limitMs);
    this.#notices.openSession(sessionId, events);
    return { ttlMs };
  }

  async grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    const { sessionId, resource, attempt, holderId, value, rank = 0, queue, limitMs } = request;
    const giveUpAt = this.#parts.clock.now() + limitMs;
    const record = encodeRecord({ holderId, sessionId, attempt, value });
    const step = { kind: "grant", resource, session: sessionId, attempt, record, rank } as const;
    const [kind, ...facts] = await this.#batch.ask({ ...step, holder: holderId, queue }, limitMs);
    if (kind === "gone" || kind === "ended") return { kind };
    if (kind !== "granted") {
      const [heldBy, checkInMs] = facts as [string | null, number | null | undefined];
      const heldById = heldBy === null ? undefined : shownRecord(heldBy).holderId;
      if (kind === "busy") return { kind, holderId: heldById };
      const sentAt = giveUpAt - limitMs;
      this.#notices.queued(sessionId, resource, attempt, this.#toDelayMs(checkInMs, sentAt));
      return { kind: "queued", holderId: heldById };
    }
    const lease = { resource, token: decodeToken(String(facts[0])) };
    if (this.#eras.isOutdated(lease.token)) await this.#checkKept(lease, giveUpAt);
    this.#eras.add(sessionId, lease);
    this.#notices.settled(attempt);
    this.#notices.used(sessionId);
    return { kind: "granted", token: lease.token };
  }

  /**
   * The answer of the former primary came after one of the new primary. Only a read shows whether
   * the new one has the grant.
   */
  async #checkKept({ resource, token }: contract.LeaseRef, giveUpAt: number): Promise<void> {
    const limitMs = giveUpAt - this.#parts.clock.now();
    const { view } = await readOne(this.#requests, resource, limitMs);
    if (view.holder?.token === token) return;
    throw new StoreUnavailableError(
      `A failover of PostgreSQL at ${this.#link.address} lost the grant of ${resource}.`,
      { applied: "unknown", resource },
    );
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId, withdrawn, acknowledged, accepted = [], limitMs } = request;
    const refs = [encodeRefs(acknowledged), encodeRefs(accepted)];
    const giveUpAt = this.#parts.clock.now() + limitMs;
    for (const { attempt } of withdrawn) this.#notices.settled(attempt);
    const values = [sessionId, JSON.stringify(withdrawn), ...refs];
    const answer = await this.#write(CALL.renew, values, limitMs);
    if (answer === "gone") {
      this.#forget(sessionId);
      return { kind: "gone" };
    }
    const renewed = JSON.parse(answer) as Renewed;
    const floor = decodeToken(renewed.floor);
    this.#noteEra(floor, limitMs);
    const granted = renewed.granted.map(([resource, digits, attempt]) => {
      this.#notices.learned(attempt);
      return { resource, token: decodeToken(digits), attempt };
    });
    for (const [, resource, checkInMs] of renewed.waiting)
      this.#notices.planCheck(sessionId, resource, this.#toDelayMs(checkInMs, giveUpAt - limitMs));
    this.#notices.used(sessionId);
    const lost = decodeNotices(renewed.gone);
    for (const ref of lost) this.#noteReleased({ sessionId, ...ref });
    // If this question fails, the renewal fails: no holder acts on a lease that may be lost.
    const missing = await this.#eras.missing(sessionId, floor, (resources) =>
      readKept(this.#requests, { resources, sessionId }, giveUpAt - this.#parts.clock.now()),
    );
    for (const grant of granted) this.#eras.add(sessionId, grant);
    return {
      kind: "renewed",
      ttlMs: renewed.ttlMs,
      gone: [...lost, ...missing],
      granted,
      wanted: decodeNotices(renewed.wanted),
      waiting: renewed.waiting.length,
    };
  }

  async release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    const { sessionId, resource, token, preferred, limitMs } = request;
    const [kind] = await this.#askRelease({ sessionId, resource, token }, limitMs, preferred);
    this.#eras.remove(sessionId, { resource, token });
    this.#noteReleased({ sessionId, resource, token });
    return { kind: kind === "released" ? "released" : "notHeld" };
  }

  #askRelease(
    { sessionId: session, resource, token }: SessionLease,
    limitMs: number,
    preferred?: string,
  ): Promise<StepAnswer> {
    const step = { kind: "release", resource, session, token: formatToken(token) } as const;
    return this.#batch.ask({ ...step, preferred }, limitMs);
  }

  async withdraw(request: contract.AttemptRequest): Promise<void> {
    const { resource, sessionId, attempt } = request;
    this.#notices.settled(attempt);
    const withdraw = (limitMs: number): Promise<unknown> =>
      this.#write(CALL.withdraw, [resource, sessionId, attempt], limitMs);
    await withdraw(request.limitMs);
    this.#givenBack.add(attempt, withdraw, this.#parts.clock.now());
  }

  async endSession({ sessionId, limitMs }: contract.SessionRequest): Promise<void> {
    this.#forget(sessionId);
    await this.#write(CALL.endSession, [sessionId], limitMs);
  }

  async revoke({
    resource,
    token,
    limitMs,
  }: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    const answer = await this.#write(CALL.revoke, [resource, formatToken(token)], limitMs);
    return { kind: answer === "revoked" ? "revoked" : "notHeld" };
  }

  async read({
    resource,
    consistency,
    limitMs,
  }: contract.ReadRequest): Promise<contract.ReadAnswer> {
    const { view, isStandby } = await readOne(this.#requests, resource, limitMs);
    if (isStandby && consistency === "linearizable") {
      throw new StoreUnavailableError(
        `PostgreSQL at ${this.#link.address} is a standby now and may lag behind. Connect to the primary, or read with consistency "stale".`,
        { applied: "no", resource },
      );
    }
    return { ...view, evidence: { consistency, ageMs: isStandby ? undefined : 0 } };
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const range = { ...request, limit: request.limit + 1 };
    const held = await readHeld(this.#requests, range, request.limitMs);
    const leases = held.slice(0, request.limit);
    return { leases, next: held.length > request.limit ? leases.at(-1)?.resource : undefined };
  }

  async *watch({
    prefix,
    signal: stop,
    onCaughtUp,
  }: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    const seen = new Map<string, bigint>();
    const { clock } = this.#parts;
    const { signal, unlink } = linkSignals(stop, this.#closing.signal);
    const wakeup = new Wakeup(clock);
    const removeWatcher = this.#notices.addWatcher(wakeup);
    let renewAt = clock.now();
    try {
      while (!signal.aborted) {
        wakeup.reset();
        let waitMs = WATCH_PAUSE_MS;
        try {
          if (clock.now() >= renewAt && this.#channel !== "") {
            renewAt = clock.now() + WATCH_RENEW_MS;
            await this.#call(CALL.watch, [this.#channel, String(WATCH_TTL_S)], OWN_LIMIT_MS);
          }
          const held = await readHeld(this.#requests, { prefix }, OWN_LIMIT_MS);
          yield* changes(seen, held);
          onCaughtUp?.();
          // One millisecond more, because a session is alive until the very end of its time.
          const expiryMs = firstExpiryMs(held) + 1;
          waitMs = Math.min(this.#notices.isListening ? WATCH_PAUSE_MS : POLL_MS, expiryMs);
        } catch (error) {
          // A watch survives an outage of the database and reports the changes after it.
          if (!(error instanceof StoreUnavailableError)) throw error;
        }
        await wakeup.wait(waitMs, signal).catch(() => undefined);
      }
    } finally {
      removeWatcher();
      unlink();
    }
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    const message = `The store on PostgreSQL at ${this.#link.address} is closed.`;
    const reason = new StoreUnavailableError(message, { applied: "no" });
    this.#closing.abort(reason);
    this.#requests.close(reason);
    this.#notices.close();
    await closeInTime(this.#link, this.#parts.clock);
  }

  /** Repeats in the background what a failover may have undone: the request itself is answered. */
  #noteEra(floor: bigint, limitMs: number): void {
    if (this.#eras.note(floor)) this.#givenBack.doubt(this.#parts.clock.now());
    void this.#givenBack.giveBackAgain(limitMs);
  }

  #noteReleased(lease: SessionLease): void {
    const again = (limitMs: number): Promise<unknown> => this.#askRelease(lease, limitMs);
    this.#givenBack.add(`${lease.token} ${lease.resource}`, again, this.#parts.clock.now());
  }

  #forget(sessionId: string): void {
    this.#eras.forget(sessionId);
    this.#notices.endSession(sessionId);
  }

  async #readFacts(sessions: readonly string[]): Promise<string[]> {
    const rows = await this.#requests.run(FACTS, [JSON.stringify(sessions)], OWN_LIMIT_MS);
    return rows.map(({ fact }) => String(fact));
  }

  async #checkExpiry(resource: string, session: string): Promise<number | undefined> {
    const checkInMs = await this.#write(CALL.checkExpiry, [resource, session], OWN_LIMIT_MS);
    return checkInMs === "" ? undefined : Number(checkInMs) + 1;
  }

  /**
   * When to check the holder. Counted from when the request was sent: its answer may have come
   * late, and a check that is early learns how early it is.
   */
  #toDelayMs(checkInMs: number | null | undefined, sentAt: number): number | undefined {
    return checkInMs == null ? undefined : checkInMs - (this.#parts.clock.now() - sentAt);
  }

  async #step(
    steps: readonly Step[],
    waits: boolean,
    limitMs: number,
  ): Promise<readonly (StepAnswer | null)[]> {
    const regrant = toRegrant(steps);
    const answer =
      regrant === undefined
        ? this.#write(CALL.step, [JSON.stringify(steps), String(waits)], limitMs)
        : this.#write(CALL.regrant, regrant, limitMs);
    return JSON.parse(await answer) as (StepAnswer | null)[];
  }

  /** The last value is how long the server may wait for a row. 0 would mean no limit. */
  #write(text: string, values: readonly (string | null)[], limitMs: number): Promise<string> {
    return this.#call(text, [...values, String(Math.max(1, Math.ceil(limitMs)))], limitMs);
  }

  async #call(text: string, values: readonly (string | null)[], limitMs: number): Promise<string> {
    const { answer } = await this.#requests.row(text, values, limitMs);
    return answer ?? "";
  }
}

interface SessionLease extends contract.LeaseRef {
  readonly sessionId: string;
}

function encodeRefs(refs: readonly contract.LeaseRef[]): string {
  return JSON.stringify(
    refs.map(({ resource, token }) => ({ resource, token: formatToken(token) })),
  );
}
