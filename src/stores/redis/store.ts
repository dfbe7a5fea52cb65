// The store on Redis (6.2 and up) or Valkey. Read it beside memory.ts, which says the same without a server. Each request
// is one script and one round trip (redis/scripts.ts); expiry is judged by the server's clock alone, and the answers are
// durations. What the server's settings mean for tokens is found out at connect and told in `guarantees`.

import { linkSignals } from "../../async/signals.ts";
import {
  decodeNotices,
  decodeRecord,
  decodeToken,
  encodeRecord,
  heldForMs,
  shownRecord,
} from "../../core/record.ts";
import { utf8Length } from "../../core/text.ts";
import { formatToken } from "../../core/token.ts";
import type * as contract from "../contract.ts";
import type { Store, StoreParts } from "../contract.ts";
import { EraTracker } from "../shared/era-tracker.ts";
import { Holdings } from "../shared/holdings.ts";
import { prefixUpperBound } from "../shared/prefix.ts";
import { UnacknowledgedGrants } from "../shared/unacknowledged-grants.ts";
import type { Bundles } from "./bundles.ts";
import type { Channels } from "./channels.ts";
import type { Names } from "./names.ts";
import type { Opened } from "./open.ts";
import { type Call, type Requests, TooFewCopiesError } from "./requests.ts";
import { scripts } from "./scripts.ts";
import { type Look, untilFree } from "./waiting.ts";
import { watch } from "./watching.ts";

export class RedisStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #names: Names;
  readonly #parts: StoreParts;
  readonly #requests: Requests;
  readonly #bundles: Bundles;
  readonly #channels: Channels;
  /** The attempt, so that a release can say exactly what it gives back. */
  readonly #holdings = new Holdings<string>();
  readonly #eras = new EraTracker();
  readonly #unacknowledged = new UnacknowledgedGrants();
  readonly #closing = new AbortController();

  constructor(names: Names, parts: StoreParts, opened: Opened) {
    this.#names = names;
    this.#parts = parts;
    this.#requests = opened.requests;
    this.#bundles = opened.bundles;
    this.#channels = opened.channels;
    this.guarantees = opened.guarantees;
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    const ttlMs = Math.ceil(request.ttlMs);
    const keys = [this.#names.session(request.sessionId), this.#names.held];
    const args = [request.holderId, String(ttlMs)];
    const call = { script: scripts.open, keys, args, limitMs: request.limitMs, confirm: true };
    const [, floor = "0"] = await this.#run(call);
    this.#eras.note(eraOf(floor));
    return { ttlMs };
  }

  grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    const act = request.queue ? "q" : "g";
    const granting = this.#bundles.ask(act, request, grantClaim, this.#grantMeant);
    if (this.#bundles.confirms) this.#withdrawUnconfirmed(granting, request);
    granting.catch((error: unknown) => this.#unacknowledged.note(request, error));
    return granting;
  }

  /** Nobody may have it; if this fails too, the caller's own withdrawal and the ttl remain. */
  #withdrawUnconfirmed(granting: Promise<unknown>, request: contract.AttemptRequest): void {
    granting.catch((error: Error) => {
      if (error.cause instanceof TooFewCopiesError) this.withdraw(request).catch(() => undefined);
    });
  }

  readonly #grantMeant = (
    answer: string,
    { sessionId, resource, attempt }: contract.GrantRequest,
  ): contract.GrantOutcome => {
    if (/^[0-9]/.test(answer)) {
      const token = decodeToken(answer);
      this.#holdings.add(sessionId, resource, attempt);
      this.#eras.add(sessionId, { resource, token });
      return { kind: "granted", token };
    }
    if (answer.startsWith("busy ")) {
      const held = answer.slice("busy ".length);
      return { kind: "busy", holderId: held === "" ? undefined : shownRecord(held).holderId };
    }
    if (answer === "ended") return { kind: answer };
    this.#forget(sessionId);
    return { kind: "gone" };
  };

  #forget(sessionId: string): void {
    this.#holdings.take(sessionId);
    this.#eras.forget(sessionId);
    this.#unacknowledged.forget(sessionId);
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId, withdrawn, acknowledged, limitMs } = request;
    const keys = [this.#names.session(sessionId), this.#names.revoked(sessionId)];
    const given = withdrawn.flatMap(({ resource, attempt }) => [resource, attempt]);
    const args = [sessionId, String(acknowledged.length), ...acknowledged.map(encodeRef), ...given];
    const call = { script: scripts.renew, keys, args, limitMs, confirm: true };
    const giveUpAt = this.#parts.clock.now() + limitMs;
    const [kind, ttl, floor = "0", ...revoked] = await this.#run(call);
    if (kind !== "renewed") {
      this.#forget(sessionId);
      return { kind: "gone" };
    }
    const gone = decodeNotices(revoked.map(splitNotice));
    const era = eraOf(floor);
    this.#eras.note(era);
    // If this question fails, the renewal fails: nobody acts on a lease that a restart may have lost.
    const missing = await this.#eras.missing(sessionId, era, (resources) =>
      this.#kept(sessionId, resources, giveUpAt - this.#parts.clock.now()),
    );
    return { kind, ttlMs: Number(ttl), gone: [...gone, ...missing] };
  }

  async #kept(
    sessionId: string,
    resources: readonly string[],
    limitMs: number,
  ): Promise<ReadonlyMap<string, bigint>> {
    const keys = [this.#names.session(sessionId)];
    const call = { script: scripts.kept, keys, args: [sessionId, ...resources], limitMs };
    const pairs = inGroups(await this.#run(call), 2);
    return new Map(pairs.map(([resource = "", token = ""]) => [resource, decodeToken(token)]));
  }

  release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    return this.#bundles.ask("r", request, this.#releaseClaim, this.#releaseMeant);
  }

  readonly #releaseClaim = ({ sessionId, resource, token }: contract.ReleaseRequest): string => {
    const attempt = this.#holdings.get(sessionId, resource);
    const held = `${token}:${withLength(sessionId)}`;
    return attempt === undefined ? `r${held}` : held + withLength(attempt);
  };

  readonly #releaseMeant = (
    answer: string,
    { sessionId, resource, token }: contract.ReleaseRequest,
  ): contract.ReleaseOutcome => {
    this.#holdings.remove(sessionId, resource);
    this.#eras.remove(sessionId, { resource, token });
    return { kind: answer === "released" ? answer : "notHeld" };
  };

  async withdraw(request: contract.AttemptRequest): Promise<void> {
    const { sessionId, resource, attempt, limitMs } = request;
    const keys = [this.#names.lease(resource)];
    const args = [sessionId, resource, attempt];
    await this.#run({ script: scripts.withdraw, keys, args, limitMs });
  }

  async endSession(request: contract.SessionRequest): Promise<void> {
    const { sessionId, limitMs } = request;
    const keys = [this.#names.session(sessionId), this.#names.revoked(sessionId)];
    const held = this.#holdings.list(sessionId).map(([resource]) => resource);
    const args = [sessionId, ...new Set([...held, ...this.#unacknowledged.resourcesOf(sessionId)])];
    await this.#run({ script: scripts.end, keys, args, limitMs });
    // Not before: one that fails is asked again.
    this.#forget(sessionId);
  }

  async untilFree(
    request: contract.AttemptRequest & { readonly signal: AbortSignal },
  ): Promise<void> {
    const { resource, attempt, sessionId, limitMs } = request;
    const keys = [this.#names.lease(resource), this.#names.queue(resource)];
    const look = async (): Promise<Look> => {
      const call = { script: scripts.look, keys, args: [resource, attempt, sessionId], limitMs };
      const [waitMs, place] = await this.#run(call);
      return { waitMs: Number(waitMs), isQueued: place === "queued" };
    };
    const { signal, unlink } = linkSignals(request.signal, this.#closing.signal);
    const channels = { turn: this.#names.turn(attempt), resource: this.#names.channel(resource) };
    const wait = { channels, attempt, signal, look };
    await untilFree(this.#channels, this.#parts.clock, wait).finally(unlink);
  }

  async read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    const { resource, consistency, limitMs } = request;
    const keys = [this.#names.lease(resource)];
    const [now, ...lease] = await this.#run({
      script: scripts.read,
      keys,
      args: [resource],
      limitMs,
    });
    const holder = now === undefined ? undefined : holderOf(lease, now, decodeRecord);
    return { resource, holder, evidence: { consistency, ageMs: 0 } };
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const { prefix, after, limitMs } = request;
    const key = this.#names.lease;
    const behind = prefixUpperBound(prefix);
    const end = behind === undefined ? "+" : `(${key(behind)}`;
    const args = [startOf(prefix, after, key), end, String(request.limit)];
    const call = { script: scripts.list, keys: [this.#names.held], args, limitMs };
    const [last, now = "", ...held] = await this.#run(call);
    const leases = inGroups(held, 5).map(([resource = "", ...lease]) => ({
      resource,
      holder: holderOf(lease, now, shownRecord),
    }));
    return { leases, next: last === "" ? undefined : last };
  }

  watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    return watch(request, {
      channels: this.#channels,
      clock: this.#parts.clock,
      closing: this.#closing.signal,
      names: this.#names,
      list: (page) => this.list(page),
      mark: async (ttlMs, limitMs) => {
        const keys = [this.#names.watched];
        await this.#run({ script: scripts.watch, keys, args: [String(ttlMs)], limitMs });
      },
    });
  }

  async revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    const { resource, token, limitMs } = request;
    const keys = [this.#names.lease(resource)];
    const call = { script: scripts.revoke, keys, args: [resource, String(token)], limitMs };
    const [kind] = await this.#run(call);
    return { kind: kind === "revoked" ? kind : "notHeld" };
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(this.#requests.closedError());
    this.#channels.close();
    this.#requests.close();
  }

  #run(call: Call): Promise<string[]> {
    this.#bundles.flush();
    return this.#requests.run(call);
  }
}

function grantClaim({ sessionId, attempt, holderId, value }: contract.GrantRequest): string {
  const record = value === undefined ? plainRecord(holderId) : recordOf(holderId, value);
  return `:${withLength(sessionId)}${withLength(attempt)}${record}`;
}

/** The script tells session and attempt apart from the record, so they need not be in it once more. */
function recordOf(holderId: string, value?: unknown): string {
  return encodeRecord({ holderId, sessionId: "", attempt: "", value });
}

/** The last one: a process has one name, and most of its leases have no value. */
let plain = { holderId: "", record: "" };

function plainRecord(holderId: string): string {
  if (holderId !== plain.holderId) plain = { holderId, record: recordOf(holderId) };
  return plain.record;
}

/** As the scripts tell names apart: the length in bytes, then the name. */
function withLength(name: string): string {
  return `${utf8Length(name)}:${name}`;
}

/** `now` is the server's clock when it read the lease. `read` decides what a malformed record means. */
function holderOf(
  [sessionId = "", token = "", record = "", left = ""]: readonly string[],
  now: string,
  read: typeof shownRecord,
): contract.HolderView {
  const { holderId, value, ...granted } = read(record);
  return {
    ...{ holderId, sessionId, token: decodeToken(token), value, expiresInMs: Number(left) },
    heldForMs: heldForMs(granted, Number(now)),
  };
}

/** Where a listing begins, as Redis takes it: behind `after`, or with the first name that has the prefix. */
function startOf(
  prefix: string,
  after: string | undefined,
  key: (resource: string) => string,
): string {
  const isBehind =
    after !== undefined && Buffer.compare(Buffer.from(after), Buffer.from(prefix)) >= 0;
  return isBehind ? `(${key(after)}` : `[${key(prefix)}`;
}

/** A revocation as it stands in the list of its session. */
function encodeRef({ resource, token }: contract.LeaseRef): string {
  return `${formatToken(token)} ${resource}`;
}

/** Resource and token of a notice. Without a space there is neither, and the notice is skipped as malformed. */
function splitNotice(text: string): readonly [resource: string, token: string] {
  const gap = text.indexOf(" ");
  return [text.slice(gap + 1), text.slice(0, Math.max(0, gap))];
}

/** 0 before the first era. */
function eraOf(floor: string): bigint {
  return floor === "0" ? 0n : decodeToken(floor);
}

function inGroups(texts: readonly string[], size: number): string[][] {
  const groups: string[][] = [];
  for (let at = 0; at < texts.length; at += size) groups.push(texts.slice(at, at + size));
  return groups;
}
