// The store contract on PostgreSQL: session rows and lease rows, judged by the database's clock alone. Read it beside memory.ts,
// which says the same without a server. Each request is one call of a function in the database (functions.ts).

import type { Clock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import type { PgLink, SqlValue } from "../../clients/postgres/link.ts";
import { listOf } from "../../clients/postgres/lists.ts";
import type { Requests } from "../../clients/postgres/requests.ts";
import { isTenureError, StoreUnavailableError } from "../../core/errors.ts";
import { decodeNotices, decodeToken, encodeRecord, shownRecord } from "../../core/record.ts";
import { formatToken } from "../../core/token.ts";
import type * as contract from "../contract.ts";
import type { Store, StoreParts } from "../contract.ts";
import { Batches } from "../shared/batches.ts";
import { changes, firstExpiryMs } from "../shared/changes.ts";
import { EraTracker } from "../shared/era-tracker.ts";
import { UnacknowledgedGrants } from "../shared/unacknowledged-grants.ts";
import { RecentlyGivenBack } from "./given-back.ts";
import { channelOf } from "./schema.ts";
import type { Server } from "./setup.ts";
import { CALL, heldIn, keptOf, readOne, waitMsOf } from "./statements.ts";
import { Waker } from "./waker.ts";

/** For requests of watches, which have no limit of their own. */
const WATCH_LIMIT_MS = 5_000;
const WATCH_PAUSE_MS = 1_000;
/** How long the database counts a watch as alive, and how often that is renewed. */
const WATCH_TTL_S = 30;
const WATCH_RENEW_MS = 10_000;
const CLOSE_LIMIT_MS = 1_000;

export interface PostgresParts {
  readonly link: PgLink;
  readonly requests: Requests;
  readonly schema: string;
  readonly listens: boolean;
  readonly server: Server;
}

export class PostgresStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #link: PgLink;
  readonly #requests: Requests;
  readonly #parts: StoreParts;
  readonly #waker: Waker;
  readonly #eras = new EraTracker();
  readonly #givenBack = new RecentlyGivenBack();
  readonly #unacknowledged = new UnacknowledgedGrants();
  readonly #closing = new AbortController();
  readonly #grants: Batches<Wanted, string>;
  readonly #releases: Batches<contract.ReleaseRequest, string>;

  constructor({ link, requests, schema, listens, server }: PostgresParts, parts: StoreParts) {
    this.#link = link;
    this.#requests = requests;
    this.#parts = parts;
    const { clock, random } = parts;
    const channel = channelOf(schema);
    const tell = (payload: string): Promise<unknown> =>
      this.#ask(CALL.notify, [channel, payload], WATCH_LIMIT_MS);
    this.#waker = new Waker({ link, clock, random, channel, listens, tell });
    this.#grants = new Batches({
      clock,
      toKey: ({ request }) => request.resource,
      one: (wanted, limitMs) => this.#acquire(wanted, limitMs),
      many: (wanted, limitMs) => this.#acquireFree(wanted, limitMs),
      isRejection,
    });
    this.#releases = new Batches({
      clock,
      toKey: ({ resource }) => resource,
      one: (held, limitMs) => this.#release(held, limitMs),
      many: (held, limitMs) => this.#releaseHeld(held, limitMs),
      isRejection,
    });
    this.guarantees = {
      store: "postgres",
      tokenSource:
        "a counter in the resource's row that starts at the server's wall clock, raised by the granting statement",
      tokenFalls:
        "when rows are lost and the server's wall clock was set back; when a virtual machine is reset to a snapshot of its memory",
      expiryClock: "the database server's clock",
      ttlStepMs: 1,
      expiryLagMs: 1,
      wakeUp: listens && link.listen !== undefined ? "push" : "poll",
      fifo: true,
      durable: server.durable,
    };
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    const { sessionId, holderId, limitMs } = request;
    const ttlMs = Math.ceil(request.ttlMs);
    const values = [sessionId, holderId, String(ttlMs), lockLimit(limitMs)];
    const answer = await this.#ask(CALL.openSession, values, limitMs);
    this.#noteEra(decodeToken(answer.slice("opened ".length)), limitMs);
    return { ttlMs };
  }

  async grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    const { sessionId, attempt, holderId, value } = request;
    const record = encodeRecord({ holderId, sessionId, attempt, value });
    const giveUpAt = this.#parts.clock.now() + request.limitMs;
    const answer = await this.#grants
      .ask({ request, record }, request.limitMs)
      .catch((error: unknown) => {
        this.#unacknowledged.note(request, error);
        throw error;
      });
    if (answer === "gone" || answer === "ended") return { kind: answer };
    if (answer.startsWith("busy ")) {
      const held = answer.slice("busy ".length);
      return { kind: "busy", holderId: held === "" ? undefined : shownRecord(held).holderId };
    }
    const lease = { resource: request.resource, token: decodeToken(answer) };
    if (this.#eras.isOutdated(lease.token)) await this.#checkKept(lease, giveUpAt);
    this.#eras.add(sessionId, lease);
    return { kind: "granted", token: lease.token };
  }

  /** The old primary's answer came after one of the new primary. Only a read shows whether the standby had the grant. */
  async #checkKept({ resource, token }: contract.LeaseRef, giveUpAt: number): Promise<void> {
    const limitMs = giveUpAt - this.#parts.clock.now();
    const { view } = await readOne(this.#requests, resource, limitMs);
    if (view.holder?.token === token) return;
    throw new StoreUnavailableError(
      `A failover of PostgreSQL at ${this.#link.address} lost the grant of ${resource}.`,
      { applied: "unknown", resource },
    );
  }

  async #acquire({ request, record }: Wanted, limitMs: number): Promise<string> {
    const { resource, sessionId, attempt, queue } = request;
    const values = [resource, sessionId, attempt, record, String(queue), lockLimit(limitMs)];
    const answer = await this.#ask(CALL.grant, values, limitMs);
    return answer.startsWith("granted ") ? answer.slice("granted ".length) : answer;
  }

  #acquireFree(wanted: readonly Wanted[], limitMs: number): Promise<Several> {
    const values = [
      listOf(wanted.map(({ request }) => request.resource)),
      listOf(wanted.map(({ request }) => request.sessionId)),
      listOf(wanted.map(({ request }) => request.attempt)),
      listOf(wanted.map(({ record }) => record)),
      lockLimit(limitMs),
    ];
    return this.#askMany(CALL.grants, values, limitMs);
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId, withdrawn, limitMs } = request;
    const acknowledged = request.acknowledged.map(({ resource, token }) => ({
      ...{ resource, token: formatToken(token) },
    }));
    const lists = [JSON.stringify(withdrawn), JSON.stringify(acknowledged)];
    const values = [sessionId, ...lists, lockLimit(limitMs)];
    const giveUpAt = this.#parts.clock.now() + limitMs;
    const answer = await this.#ask(CALL.renew, values, limitMs);
    if (answer === "gone") {
      this.#forget(sessionId);
      return { kind: "gone" };
    }
    const { ttlMs, floor, gone, free } = JSON.parse(answer) as {
      ttlMs: string;
      floor: string;
      gone: { resource: string; token: string }[];
      free: string[];
    };
    const era = decodeToken(floor);
    this.#noteEra(era, limitMs);
    for (const resource of free) this.#waker.ring(resource);
    const lost = decodeNotices(gone.map(({ resource, token }) => [resource, token]));
    for (const ref of lost) this.#noteReleased({ sessionId, ...ref });
    // If this question fails, the renewal fails: nobody acts on a lease that a failover may have lost.
    const missing = await this.#eras.missing(sessionId, era, (resources) =>
      keptOf(this.#requests, { resources, sessionId }, giveUpAt - this.#parts.clock.now()),
    );
    return { kind: "renewed", ttlMs: Number(ttlMs), gone: [...lost, ...missing] };
  }

  /** What may have to be given back once more is not waited for: the request itself has been answered. */
  #noteEra(floor: bigint, limitMs: number): void {
    if (this.#eras.note(floor)) this.#givenBack.doubt(this.#parts.clock.now());
    void this.#givenBack.giveBackAgain(limitMs);
  }

  #noteReleased(ref: contract.LeaseRef & { readonly sessionId: string }): void {
    const again = (limitMs: number): Promise<unknown> =>
      this.#releases.ask({ ...ref, limitMs }, limitMs);
    this.#givenBack.add(`${ref.token} ${ref.resource}`, again, this.#parts.clock.now());
  }

  async release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    const answer = await this.#releases.ask(request, request.limitMs);
    const { sessionId, resource, token } = request;
    this.#eras.remove(sessionId, { resource, token });
    this.#noteReleased({ sessionId, resource, token });
    return { kind: answer === "released" ? "released" : "notHeld" };
  }

  #release(held: contract.ReleaseRequest, limitMs: number): Promise<string> {
    const { resource, sessionId, token } = held;
    const values = [resource, sessionId, formatToken(token), lockLimit(limitMs)];
    return this.#ask(CALL.release, values, limitMs);
  }

  #releaseHeld(held: readonly contract.ReleaseRequest[], limitMs: number): Promise<Several> {
    const values = [
      listOf(held.map(({ resource }) => resource)),
      listOf(held.map(({ sessionId }) => sessionId)),
      listOf(held.map(({ token }) => formatToken(token))),
      lockLimit(limitMs),
    ];
    return this.#askMany(CALL.releases, values, limitMs);
  }

  async withdraw(request: contract.AttemptRequest): Promise<void> {
    const { resource, sessionId, attempt } = request;
    const withdraw = (limitMs: number): Promise<unknown> =>
      this.#ask(CALL.withdraw, [resource, sessionId, attempt, lockLimit(limitMs)], limitMs);
    await withdraw(request.limitMs);
    this.#givenBack.add(attempt, withdraw, this.#parts.clock.now());
  }

  async endSession({ sessionId, limitMs }: contract.SessionRequest): Promise<void> {
    const known = this.#eras.resourcesOf(sessionId);
    const held = JSON.stringify([...known, ...this.#unacknowledged.resourcesOf(sessionId)]);
    await this.#ask(CALL.endSession, [sessionId, held, lockLimit(limitMs)], limitMs);
    // Not before: one that fails is asked again.
    this.#forget(sessionId);
  }

  #forget(sessionId: string): void {
    this.#eras.forget(sessionId);
    this.#unacknowledged.forget(sessionId);
  }

  async revoke({
    resource,
    token,
    limitMs,
  }: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    const values = [resource, formatToken(token), lockLimit(limitMs)];
    const answer = await this.#ask(CALL.revoke, values, limitMs);
    return { kind: answer === "revoked" ? "revoked" : "notHeld" };
  }

  async untilFree(
    request: contract.AttemptRequest & { readonly signal: AbortSignal },
  ): Promise<void> {
    const { signal, unlink } = linkSignals(request.signal, this.#closing.signal);
    // Heard first, looked at then: a release between the two is not missed.
    const subscription = this.#waker.subscribe(request.resource, request.attempt);
    try {
      for (;;) {
        signal.throwIfAborted();
        subscription.reset();
        // Where looking fails, asking will too, and tell why.
        const waitMs = await waitMsOf(this.#requests, request).catch(() => 0);
        signal.throwIfAborted();
        if (waitMs <= 0) return;
        subscription.isFar = waitMs === Number.POSITIVE_INFINITY;
        await subscription.wait(Math.min(waitMs, this.#waker.lookMs(subscription)), signal);
      }
    } finally {
      subscription.close();
      unlink();
    }
  }

  async read({
    resource,
    consistency,
    limitMs,
  }: contract.ReadRequest): Promise<contract.ReadAnswer> {
    const { view, standby } = await readOne(this.#requests, resource, limitMs);
    if (standby && consistency === "linearizable") {
      throw new StoreUnavailableError(
        `PostgreSQL at ${this.#link.address} is a standby now and may be behind: connect to the primary, or read with consistency "stale".`,
        { applied: "no", resource },
      );
    }
    return { ...view, evidence: { consistency, ageMs: standby ? undefined : 0 } };
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const range = { ...request, limit: request.limit + 1 };
    const held = await heldIn(this.#requests, range, request.limitMs);
    const leases = held.slice(0, request.limit);
    return { leases, next: held.length > request.limit ? leases.at(-1)?.resource : undefined };
  }

  async *watch({
    prefix,
    signal: stop,
    onCaughtUp,
  }: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    const seen = new Map<string, bigint>();
    const { clock, random } = this.#parts;
    const { signal, unlink } = linkSignals(stop, this.#closing.signal);
    const subscription = this.#waker.subscribe();
    const watcher = random.id();
    let renewAt = clock.now();
    try {
      while (!signal.aborted) {
        subscription.reset();
        let waitMs = WATCH_PAUSE_MS;
        try {
          if (clock.now() >= renewAt) {
            renewAt = clock.now() + WATCH_RENEW_MS;
            await this.#ask(CALL.watch, [watcher, String(WATCH_TTL_S)], WATCH_LIMIT_MS);
          }
          const held = await heldIn(this.#requests, { prefix, limit: undefined }, WATCH_LIMIT_MS);
          yield* changes(seen, held);
          onCaughtUp?.();
          // One millisecond more: a read at the very end would still show the lease.
          const expiryMs = firstExpiryMs(held) + 1;
          waitMs = Math.min(WATCH_PAUSE_MS, this.#waker.lookMs(subscription), expiryMs);
        } catch (error) {
          // A watch outlives an outage of the database; what changed meanwhile is seen then.
          if (!(error instanceof StoreUnavailableError)) throw error;
        }
        await subscription.wait(waitMs, signal).catch(() => undefined);
      }
    } finally {
      subscription.close();
      unlink();
    }
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    const message = `The store on PostgreSQL at ${this.#link.address} is closed.`;
    const reason = new StoreUnavailableError(message, { applied: "no" });
    this.#closing.abort(reason);
    this.#requests.close(reason);
    this.#waker.close();
    await closeInTime(this.#link, this.#parts.clock);
  }

  async #askMany(text: string, values: readonly SqlValue[], limitMs: number): Promise<Several> {
    const answers = (await this.#ask(text, values, limitMs)).split(" ");
    return answers.map((answer) => (answer === "-" ? undefined : answer));
  }

  async #ask(text: string, values: readonly SqlValue[], limitMs: number): Promise<string> {
    const { answer } = await this.#requests.row(text, values, limitMs);
    return answer ?? "";
  }
}

interface Wanted {
  readonly request: contract.GrantRequest;
  /** As it is kept in the lease's row. */
  readonly record: string;
}

/** Undefined: not decided, to be asked for by itself. */
type Several = readonly (string | undefined)[];

/** What the server may wait for a row. 0 would mean for ever. */
function lockLimit(limitMs: number): string {
  return String(Math.max(1, Math.ceil(limitMs)));
}

/** A link that is cut off may never say that it is closed. */
export function closeInTime(link: PgLink, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(resolve, CLOSE_LIMIT_MS);
    void link
      .close()
      .catch(() => undefined)
      .then(() => {
        timer.cancel();
        resolve();
      });
  });
}

/** The server's own words: the transaction has ended without effect. */
function isRejection(error: unknown): boolean {
  return !isTenureError(error, "STORE_UNAVAILABLE");
}
