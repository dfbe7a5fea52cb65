// The sessions that this process owns. A session is one record with a beat, and a renewal is one
// conditional write to it, however many leases the session has. Other processes leave notices in
// the record: a lease was revoked, or is wanted. They change its version, so the next renewal
// cannot miss them. In between we learn of them by push, or by polling while leases are held.

import type { Timer } from "../../async/clock.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import type {
  Grant,
  LeaseRef,
  OpenSessionRequest,
  RenewRequest,
  SessionEvents,
  StoreParts,
} from "../contract.ts";
import { type RecordBackend, SESSION_PREFIX } from "./backend.ts";
import type { Cells } from "./cells.ts";
import { toEnded } from "./observed.ts";
import { NO_SESSION, SESSION, type SessionRecord } from "./records.ts";

/** A session of this process. */
export interface OwnSession {
  readonly id: string;
  readonly ttlMs: number;
  readonly quietAfterMs: number;
  readonly events: SessionEvents | undefined;
  /** The beat that the backend has confirmed, and when its write was requested. */
  beat: number;
  confirmedAt: number;
  /** It is being ended, or others have ended it. */
  isOver: boolean;
  /** Its leases: the token by resource. */
  readonly held: Map<string, bigint>;
  /** Its queued attempts: the resource by attempt. */
  readonly waiting: Map<string, string>;
  /** Grants to queued attempts that the holder has not accepted yet, by resource. */
  readonly unaccepted: Map<string, Grant>;
  /** The notices that were reported, by `toKey`. */
  readonly noticed: Set<string>;
  stopListening(): void;
}

type Notice = "revoked" | "wanted";

export interface SessionsParts {
  readonly backend: RecordBackend;
  readonly cells: Cells;
  readonly store: StoreParts;
  /** Called once for each notice about a lease of an own session. */
  onNotice(own: OwnSession, kind: Notice, ref: LeaseRef): void;
  /** The session was not renewed in time. */
  onExpired(own: OwnSession): void;
}

/** More notices that a lease is wanted are left out. They are not needed for safety. */
const WANTED_MAX = 100;
const LISTEN_LIMIT_MS = 5_000;

export class Sessions {
  readonly #parts: SessionsParts;
  readonly #own = new Map<string, OwnSession>();

  constructor(parts: SessionsParts) {
    this.#parts = parts;
  }

  async open(request: OpenSessionRequest, endsAt: number): Promise<OwnSession> {
    const { sessionId: id, holderId, events } = request;
    const { cells, store } = this.#parts;
    const ttlMs = Math.ceil(request.ttlMs);
    // An expired session is quiet too.
    const quietAfterMs = Math.min(ttlMs, Math.ceil(request.quietAfterMs ?? ttlMs));
    const confirmedAt = store.clock.now();
    const key = SESSION_PREFIX + id;
    cells.assumeMissing(key);
    const beat = await cells.change(key, SESSION, endsAt, (content) => {
      if (content?.ended === true)
        throw new StoreUnavailableError("The session has ended.", { applied: "no" });
      const next = (content?.beat ?? -1) + 1;
      const facts = { holderId, ttlMs, quietAfterMs, beat: next, ended: false };
      return { write: { ...facts, revoked: [], wanted: [] }, answer: next };
    });
    const own: OwnSession = {
      ...{ id, ttlMs, quietAfterMs, events, beat, confirmedAt, isOver: false },
      held: new Map(),
      waiting: new Map(),
      unaccepted: new Map(),
      noticed: new Set(),
      stopListening: () => undefined,
    };
    this.#own.get(id)?.stopListening();
    this.#own.set(id, own);
    own.stopListening = this.#listen(own);
    return own;
  }

  /** The session, also if it is over. */
  get(id: string): OwnSession | undefined {
    return this.#own.get(id);
  }

  /** The session if it is alive. It is never used again after a ttl without a renewal (S5). */
  findAlive(id: string): OwnSession | undefined {
    const own = this.#own.get(id);
    if (own === undefined || own.isOver) return undefined;
    if (this.#parts.store.clock.now() < own.confirmedAt + own.ttlMs) return own;
    own.isOver = true;
    this.#parts.onExpired(own);
    return undefined;
  }

  /** Whether the session is alive and not quiet. Undefined: of another process. */
  isActive(id: string): boolean | undefined {
    const own = this.#own.get(id);
    if (own === undefined) return undefined;
    return !own.isOver && this.#parts.store.clock.now() < own.confirmedAt + own.quietAfterMs;
  }

  /** Renews the session and returns its record. Undefined: it has ended. */
  async renew(
    own: OwnSession,
    acknowledged: RenewRequest["acknowledged"],
    endsAt: number,
  ): Promise<SessionRecord | undefined> {
    const { cells, store } = this.#parts;
    const sentAt = store.clock.now();
    const done = new Set(acknowledged.map(toKey));
    const decide = (content = NO_SESSION) => {
      // A lower beat: the backend has lost renewals, and perhaps leases, or the record is missing.
      if (content.ended || content.beat < own.beat) return { answer: undefined };
      const revoked = content.revoked.filter((ref) => !done.has(toKey(ref)));
      const wanted = content.wanted.filter((ref) => mayHold(own, ref));
      const next: SessionRecord = { ...content, beat: content.beat + 1, revoked, wanted };
      return { write: next, answer: next };
    };
    const key = SESSION_PREFIX + own.id;
    const content = await cells.change<SessionRecord, SessionRecord | undefined>(
      key,
      SESSION,
      endsAt,
      decide,
    );
    if (content === undefined) {
      this.forget(own);
      return undefined;
    }
    own.beat = Math.max(own.beat, content.beat);
    own.confirmedAt = Math.max(own.confirmedAt, sentAt);
    for (const key of done) own.noticed.delete(`revoked ${key}`);
    return content;
  }

  /** Ends a session of this process. It stays known until `forget`. */
  async end(own: OwnSession, endsAt: number): Promise<void> {
    own.isOver = true;
    const key = SESSION_PREFIX + own.id;
    await this.#parts.cells.change<SessionRecord, void>(key, SESSION, endsAt, (content) => {
      const isEnded = content === undefined || content.ended;
      return { write: isEnded ? undefined : toEnded(content, own.ttlMs), answer: undefined };
    });
  }

  forget(own: OwnSession): void {
    own.isOver = true;
    own.stopListening();
    if (this.#own.get(own.id) === own) this.#own.delete(own.id);
  }

  /**
   * Leaves a notice in the record of a session. False if the session cannot read it any more: it
   * has ended, or its record is missing or malformed.
   */
  leaveNotice(id: string, kind: Notice, ref: LeaseRef, endsAt: number): Promise<boolean> {
    const key = SESSION_PREFIX + id;
    return this.#parts.cells.change(key, SESSION, endsAt, (content = NO_SESSION) => {
      if (content.ended || content.beat < 0) return { answer: false };
      const isFull = kind === "wanted" && content.wanted.length >= WANTED_MAX;
      if (isFull || content[kind].some((each) => toKey(each) === toKey(ref)))
        return { answer: true };
      return { write: { ...content, [kind]: [...content[kind], ref] }, answer: true };
    });
  }

  /** Takes the record of a session that was read or written, and reports its notices. */
  onContent(id: string, content: SessionRecord | undefined): void {
    const own = this.#own.get(id);
    if (own === undefined || content === undefined) return;
    for (const kind of ["revoked", "wanted"] as const) {
      for (const ref of content[kind]) {
        const key = `${kind} ${toKey(ref)}`;
        const isHeld = own.held.get(ref.resource) === ref.token;
        // A notice about a lease that this process has not learned of yet is reported later.
        if (own.noticed.has(key) || (kind === "wanted" && !isHeld)) continue;
        own.noticed.add(key);
        this.#parts.onNotice(own, kind, ref);
      }
    }
  }

  close(): void {
    for (const own of this.#own.values()) own.stopListening();
  }

  #listen(own: OwnSession): () => void {
    const { backend, cells, store } = this.#parts;
    const { clock } = store;
    const key = SESSION_PREFIX + own.id;
    // The records that this yields are processed by onContent. A failed read is repeated.
    const read = async (): Promise<unknown> =>
      cells.read(key, SESSION, clock.now() + LISTEN_LIMIT_MS).catch(() => undefined);
    if (backend.subscribe !== undefined)
      return backend.subscribe({ key }, (change) => {
        if (change?.record === undefined) void read();
        else cells.accept(key, SESSION, change.record);
      });
    let timer: Timer;
    const plan = (): void => {
      timer = clock.setTimer(() => {
        const isNeeded = own.held.size > 0 && !own.isOver;
        if (isNeeded) void read();
        plan();
      }, backend.facts.maxPollMs);
    };
    plan();
    return () => timer.cancel();
  }
}

/** Whether the session has the lease, or may have it and not know it yet. */
function mayHold(own: OwnSession, { resource, token }: LeaseRef): boolean {
  return own.held.get(resource) === token || [...own.waiting.values()].includes(resource);
}

function toKey({ resource, token }: LeaseRef): string {
  return `${token} ${resource}`;
}
