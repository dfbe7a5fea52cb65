// The store contract on Redis (6.2 and up) or Valkey. Each request is one script and one round
// trip: grant.lua.ts decides, and memory/backend.ts does the same without a server. Only the
// server's clock decides about expiry. wait.ts reports to sessions what other processes did.

import {
  decodeRecord,
  decodeToken,
  encodeRecord,
  heldForMs,
  shownRecord,
} from "../../core/record.ts";
import { formatToken } from "../../core/token.ts";
import type * as contract from "../contract.ts";
import type { Store, StoreParts } from "../contract.ts";
import { EraTracker } from "../shared/era-tracker.ts";
import { decodeFact } from "../shared/facts.ts";
import { prefixUpperBound } from "../shared/prefix.ts";
import { Batch } from "./batch.ts";
import type { Channels } from "./channels.ts";
import type { Names } from "./names.ts";
import { type Call, type Requests, TooFewCopiesError } from "./requests.ts";
import { scripts } from "./scripts.lua.ts";
import { Notices } from "./wait.ts";
import { watch } from "./watch.ts";

export interface Opened {
  readonly names: Names;
  readonly requests: Requests;
  readonly channels: Channels;
  readonly guarantees: contract.Guarantees;
}

/** The time limit of requests for which no caller waits. */
const CHECK_LIMIT_MS = 1_000;

export class RedisStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #names: Names;
  readonly #parts: StoreParts;
  readonly #requests: Requests;
  readonly #batch: Batch;
  readonly #channels: Channels;
  /** Identifies the channel of this process. */
  readonly #processId: string;
  /** Signs the messages on that channel. */
  readonly #secret: string;
  readonly #notices: Notices;
  readonly #eras = new EraTracker();
  readonly #closing = new AbortController();

  constructor({ names, requests, channels, guarantees }: Opened, parts: StoreParts) {
    this.guarantees = guarantees;
    this.#names = names;
    this.#parts = parts;
    this.#requests = requests;
    this.#batch = new Batch(requests, parts);
    this.#channels = channels;
    this.#processId = parts.random.id();
    this.#secret = parts.random.id();
    this.#notices = new Notices({
      channels,
      channel: names.facts(this.#processId),
      secret: this.#secret,
      clock: parts.clock,
      confirm: (sessionId, grant) => this.#confirm(sessionId, grant),
      checkExpiry: async (resource, sessionId) => {
        const call = { script: scripts.check, args: [resource, sessionId] };
        const [checkInMs = "-"] = await this.#run({ ...call, limitMs: CHECK_LIMIT_MS });
        return checkInMs;
      },
    });
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    const { sessionId, holderId, limitMs, events } = request;
    const ttlMs = Math.ceil(request.ttlMs);
    const quietAfterMs = Math.ceil(request.quietAfterMs ?? ttlMs);
    this.#notices.openSession(sessionId, events);
    const times = [String(ttlMs), String(quietAfterMs)];
    const args = [sessionId, holderId, ...times, this.#processId, this.#secret];
    const call = { script: scripts.open, args, limitMs, confirm: true };
    const [floor = "0"] = await this.#run(call);
    this.#eras.note(toFloor(floor));
    return { ttlMs };
  }

  grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    return request.queue && !this.#notices.isListening
      ? this.#grantWhenListening(request)
      : this.#grant(request, request.limitMs);
  }

  async #grantWhenListening(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    const { clock } = this.#parts;
    const endsAt = clock.now() + request.limitMs;
    await this.#notices.untilListening(request.limitMs / 2);
    return this.#grant(request, endsAt - clock.now());
  }

  async #grant(request: contract.GrantRequest, limitMs: number): Promise<contract.GrantOutcome> {
    const { sessionId, resource, attempt, holderId, value, rank = 0 } = request;
    // The lease names session and attempt itself, so they need not be in its record.
    const record = encodeRecord({ holderId, sessionId: "", attempt: "", value });
    const words = [sessionId, resource, attempt, holderId, String(rank), record];
    const kind = request.queue ? "queue" : "grant";
    const sentAt = this.#parts.clock.now();
    let answer: string;
    try {
      answer = await this.#batch.ask({ kind, words, limitMs });
    } catch (error) {
      this.#withdrawUnconfirmed(error, request);
      throw error;
    }
    if (/^[0-9]/.test(answer)) {
      const token = decodeToken(answer);
      this.#eras.add(sessionId, { resource, token });
      this.#notices.left(resource, attempt);
      return { kind: "granted", token };
    }
    const [outcome = "", ...rest] = answer.split(" ");
    if (outcome === "busy") return { kind: outcome, holderId: readHolderId(rest.join(" ")) };
    if (outcome === "queued") {
      const [checkInMs = "-", ...held] = rest;
      this.#notices.queued(request, checkInMs, sentAt);
      return { kind: outcome, holderId: readHolderId(held.join(" ")) };
    }
    if (outcome === "ended") return { kind: outcome };
    this.#forget(sessionId);
    return { kind: "gone" };
  }

  /**
   * A grant that too few replicas have must not be used. If the withdrawal fails, the holder's own
   * withdrawal and the ttl remain.
   */
  #withdrawUnconfirmed(error: unknown, request: contract.AttemptRequest): void {
    if ((error as Error).cause instanceof TooFewCopiesError)
      this.withdraw(request).catch(() => undefined);
  }

  /** Whether the session may use the grant that a notification reports. */
  async #confirm(sessionId: string, grant: contract.Grant): Promise<boolean> {
    const { resource, attempt, token } = grant;
    // The server may have lost it since. If not, the next renewal reports it.
    if (this.#eras.isOutdated(token)) return false;
    if (this.#requests.confirms) {
      const limitMs = CHECK_LIMIT_MS;
      const args = [sessionId, resource, attempt];
      try {
        const call = { script: scripts.confirm, args, limitMs, confirm: true };
        const [confirmed] = await this.#run(call);
        if (confirmed !== formatToken(token)) return false;
      } catch (error) {
        this.#withdrawUnconfirmed(error, { sessionId, resource, attempt, limitMs });
        return false;
      }
    }
    this.#eras.add(sessionId, { resource, token });
    return true;
  }

  #forget(sessionId: string): void {
    this.#eras.forget(sessionId);
    this.#notices.endSession(sessionId);
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId, acknowledged, accepted = [], withdrawn, limitMs } = request;
    const sentAt = this.#parts.clock.now();
    const counts = [String(acknowledged.length), String(accepted.length)];
    const refs = [...acknowledged, ...accepted].flatMap(({ resource, token }) => [
      resource,
      formatToken(token),
    ]);
    const attempts = withdrawn.flatMap(({ resource, attempt }) => [resource, attempt]);
    const args = [sessionId, ...counts, ...refs, ...attempts];
    const call = { script: scripts.renew, args, limitMs, confirm: true };
    const [ttl = "gone", floor = "0", waiting, checks, ...rest] = await this.#run(call);
    if (ttl === "gone") {
      this.#forget(sessionId);
      return { kind: "gone" };
    }
    const facts = rest.splice(2 * Number(checks));
    for (const [resource = "", checkInMs = "-"] of inGroups(rest, 2))
      this.#notices.planCheck(resource, checkInMs, sentAt);
    const gone: contract.LeaseRef[] = [];
    const granted: contract.Grant[] = [];
    const wanted: contract.LeaseRef[] = [];
    for (const fact of facts.map(decodeFact)) {
      if (fact?.session !== sessionId) continue;
      if (fact.kind === "granted") {
        granted.push(fact.grant);
        this.#notices.left(fact.grant.resource, fact.grant.attempt);
      } else (fact.kind === "lost" ? gone : wanted).push(fact.ref);
    }
    const era = toFloor(floor);
    this.#eras.note(era);
    // If this question fails, the renewal fails: a restart may have lost a lease (S7).
    const missing = await this.#eras.missing(sessionId, era, (resources) =>
      this.#kept(sessionId, resources, sentAt + limitMs - this.#parts.clock.now()),
    );
    for (const grant of granted) this.#eras.add(sessionId, grant);
    const counted = { ttlMs: Number(ttl), waiting: Number(waiting) };
    return { kind: "renewed", ...counted, gone: [...gone, ...missing], granted, wanted };
  }

  async #kept(
    sessionId: string,
    resources: readonly string[],
    limitMs: number,
  ): Promise<ReadonlyMap<string, bigint>> {
    const call = { script: scripts.kept, args: [sessionId, ...resources], limitMs };
    const pairs = inGroups(await this.#run(call), 2);
    return new Map(pairs.map(([resource = "", token = ""]) => [resource, decodeToken(token)]));
  }

  async release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    const { sessionId, resource, token, preferred = "", limitMs } = request;
    const words = [sessionId, resource, formatToken(token), preferred];
    const answer = await this.#batch.ask({ kind: "release", words, limitMs });
    this.#eras.remove(sessionId, { resource, token });
    return { kind: answer === "released" ? answer : "notHeld" };
  }

  async withdraw(request: contract.AttemptRequest): Promise<void> {
    const { sessionId, resource, attempt, limitMs } = request;
    this.#notices.left(resource, attempt);
    const args = [sessionId, resource, attempt];
    await this.#run({ script: scripts.withdraw, args, limitMs });
  }

  async endSession({ sessionId, limitMs }: contract.SessionRequest): Promise<void> {
    const args = [sessionId, ...this.#eras.resourcesOf(sessionId)];
    await this.#run({ script: scripts.end, args, limitMs });
    // Not before: a request that fails is repeated.
    this.#forget(sessionId);
  }

  async read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    const { resource, consistency, limitMs } = request;
    const call = { script: scripts.read, args: [resource], limitMs };
    const [now, ...lease] = await this.#run(call);
    const holder = now === undefined ? undefined : toHolder(lease, now, decodeRecord);
    return { resource, holder, evidence: { consistency, ageMs: 0 } };
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const { prefix, after, limit, limitMs } = request;
    const { lease: toKey } = this.#names;
    const bound = prefixUpperBound(prefix);
    const end = bound === undefined ? "+" : `(${toKey(bound)}`;
    const args = [toStart(prefix, after, toKey), end, String(limit)];
    const [last, now = "", ...held] = await this.#run({ script: scripts.list, args, limitMs });
    const leases = inGroups(held, 5).map(([resource = "", ...lease]) => ({
      resource,
      holder: toHolder(lease, now, shownRecord),
    }));
    return { leases, next: last === "" ? undefined : last };
  }

  watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    return watch(request, {
      channels: this.#channels,
      channel: this.#names.changes,
      clock: this.#parts.clock,
      closing: this.#closing.signal,
      list: (page) => this.list(page),
      announce: (ttlMs, limitMs) =>
        this.#run({ script: scripts.watch, args: [String(ttlMs)], limitMs }),
    });
  }

  async revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    const { resource, token, limitMs } = request;
    const args = [resource, formatToken(token)];
    const [kind] = await this.#run({ script: scripts.revoke, args, limitMs });
    return { kind: kind === "revoked" ? kind : "notHeld" };
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(this.#requests.closedError());
    this.#notices.close();
    this.#batch.close();
    this.#channels.close();
    this.#requests.close();
  }

  /** Sends a script after the grants and releases that were requested before it. */
  #run(call: Call): Promise<string[]> {
    this.#batch.flush();
    return this.#requests.run(call);
  }
}

function readHolderId(record: string): string | undefined {
  return record === "" ? undefined : shownRecord(record).holderId;
}

/** `now`: the server's clock. `read` decides what a malformed record means. */
function toHolder(
  [sessionId = "", token = "", record = "", left = ""]: readonly string[],
  now: string,
  read: typeof shownRecord,
): contract.HolderView {
  const { holderId, value, ...granted } = read(record);
  return {
    holderId,
    sessionId,
    token: decodeToken(token),
    value,
    expiresInMs: Number(left),
    heldForMs: heldForMs(granted, Number(now)),
  };
}

/** Where a list begins, as ZRANGEBYLEX takes it: after `after`, or with the prefix itself. */
function toStart(
  prefix: string,
  after: string | undefined,
  toKey: (resource: string) => string,
): string {
  const isAfter =
    after !== undefined && Buffer.compare(Buffer.from(after), Buffer.from(prefix)) >= 0;
  return isAfter ? `(${toKey(after)}` : `[${toKey(prefix)}`;
}

/** 0 before the first era. */
function toFloor(floor: string): bigint {
  return floor === "0" ? 0n : decodeToken(floor);
}

function inGroups(texts: readonly string[], size: number): string[][] {
  const groups: string[][] = [];
  for (let at = 0; at < texts.length; at += size) groups.push(texts.slice(at, at + size));
  return groups;
}
