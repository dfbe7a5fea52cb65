// The sessions that this process owns. A session is one record with a beat, and a renewal is one
// conditional write to it, however many leases the session has. Other processes leave notices in
// the record: a lease was revoked, or is wanted. They change its version, so the next renewal
// cannot miss them. In between we learn of them by push, or by polling while leases are held.

import type { Clock, Timer } from "../../async/clock.ts";
import type { Grant, LeaseRef, OpenSessionRequest, SessionEvents } from "../contract.ts";
import type { RecordBackend } from "./backend.ts";
import type { Cells } from "./cells.ts";
import { toEnded } from "./observed.ts";
import { type SessionRecord, sessionAt } from "./records.ts";

/** A session of this process. */
export class OwnSession {
  readonly id: string;
  readonly ttlMs: number;
  readonly quietAfterMs: number;
  readonly events: SessionEvents | undefined;
  /** The beat that the backend has confirmed, and when its write was requested. */
  beat = 0;
  confirmedAt: number;
  /** It is being ended, or others have ended it. */
  isOver = false;
  /** Its leases: the token by resource. */
  readonly held: Map<string, bigint> = new Map();
  /** Its queued attempts: the resource by attempt. */
  readonly waiting: Map<string, string> = new Map();
  /** Grants to queued attempts that the holder has not accepted yet, by resource. */
  readonly unaccepted: Map<string, Grant> = new Map();
  /** The notices that were reported. */
  readonly noticed: Set<string> = new Set();
  stopListening: () => void = () => undefined;

  constructor({ sessionId, ttlMs, quietAfterMs = ttlMs, events }: OpenSessionRequest, now: number) {
    this.id = sessionId;
    this.ttlMs = Math.ceil(ttlMs);
    // An expired session is quiet too.
    this.quietAfterMs = Math.min(this.ttlMs, Math.ceil(quietAfterMs));
    this.events = events;
    this.confirmedAt = now;
  }

  /** The lease has ended. */
  drop({ resource, token }: LeaseRef): void {
    if (this.held.get(resource) === token) this.held.delete(resource);
    if (this.unaccepted.get(resource)?.token === token) this.unaccepted.delete(resource);
    this.noticed.delete(toKey("wanted", { resource, token }));
  }

  /** Whether the session has the lease, or may have it and not know it yet. */
  mayHold({ resource, token }: LeaseRef): boolean {
    return this.held.get(resource) === token || [...this.waiting.values()].includes(resource);
  }
}

type Notice = "revoked" | "wanted";

export interface SessionsParts {
  readonly backend: RecordBackend;
  readonly cells: Cells;
  readonly clock: Clock;
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
    const { cells, clock } = this.#parts;
    const own = new OwnSession(request, clock.now());
    const { ttlMs, quietAfterMs } = own;
    const { holderId } = request;
    cells.assumeMissing(sessionAt(own.id));
    own.beat = await cells.change(sessionAt(own.id), endsAt, (content) => {
      const beat = content.beat + 1;
      const facts = { holderId, ttlMs, quietAfterMs, beat, ended: false };
      return { write: { ...facts, revoked: [], wanted: [] }, answer: beat };
    });
    this.#own.set(own.id, own);
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
    if (this.#parts.clock.now() < own.confirmedAt + own.ttlMs) return own;
    own.isOver = true;
    this.#parts.onExpired(own);
    return undefined;
  }

  /** Whether the session is alive and not quiet. Undefined: of another process. */
  isActive(id: string): boolean | undefined {
    const own = this.#own.get(id);
    if (own === undefined) return undefined;
    return !own.isOver && this.#parts.clock.now() < own.confirmedAt + own.quietAfterMs;
  }

  /** Renews the session and returns its record. Undefined: it has ended. */
  async renew(
    own: OwnSession,
    acknowledged: readonly LeaseRef[],
    endsAt: number,
  ): Promise<SessionRecord | undefined> {
    const sentAt = this.#parts.clock.now();
    const done = new Set(acknowledged.map((ref) => toKey("revoked", ref)));
    const decide = (content: SessionRecord) => {
      // A lower beat: the backend has lost renewals, and perhaps leases, or the record is missing.
      if (content.ended || content.beat < own.beat) return { answer: undefined };
      const revoked = content.revoked.filter((ref) => !done.has(toKey("revoked", ref)));
      const wanted = content.wanted.filter((ref) => own.mayHold(ref));
      const next: SessionRecord = { ...content, beat: content.beat + 1, revoked, wanted };
      return { write: next, answer: next };
    };
    const content = await this.#parts.cells.change<SessionRecord, SessionRecord | undefined>(
      sessionAt(own.id),
      endsAt,
      decide,
    );
    if (content === undefined) return undefined;
    own.beat = Math.max(own.beat, content.beat);
    own.confirmedAt = Math.max(own.confirmedAt, sentAt);
    for (const key of done) own.noticed.delete(key);
    return content;
  }

  /** Ends a session of this process. It stays known until `forget`. */
  async end(own: OwnSession, endsAt: number): Promise<void> {
    own.isOver = true;
    await this.#parts.cells.change(sessionAt(own.id), endsAt, (content) => ({
      write: content.ended ? undefined : toEnded(content, own.ttlMs),
      answer: undefined,
    }));
  }

  forget(own: OwnSession): void {
    own.isOver = true;
    own.stopListening();
    this.#own.delete(own.id);
  }

  /**
   * Leaves a notice in the record of a session. If the session has ended, or its record is missing
   * or malformed, its next renewal fails anyway.
   */
  async leaveNotice(id: string, kind: Notice, ref: LeaseRef, endsAt: number): Promise<void> {
    await this.#parts.cells.change(sessionAt(id), endsAt, (content) => {
      const known = content[kind];
      const isThere = known.some((each) => toKey(kind, each) === toKey(kind, ref));
      const isFull = kind === "wanted" && known.length >= WANTED_MAX;
      if (content.ended || content.beat < 0 || isThere || isFull) return { answer: undefined };
      return { write: { ...content, [kind]: [...known, ref] }, answer: undefined };
    });
  }

  /** Takes the record of a session that was read or written, and reports its notices. */
  onContent(id: string, content: SessionRecord): void {
    const own = this.#own.get(id);
    if (own === undefined) return;
    for (const kind of ["revoked", "wanted"] as const) {
      for (const ref of content[kind]) {
        const key = toKey(kind, ref);
        // A lease that this process has not learned of yet is reported as wanted later.
        const isEarly = kind === "wanted" && own.held.get(ref.resource) !== ref.token;
        if (isEarly || own.noticed.has(key)) continue;
        own.noticed.add(key);
        this.#parts.onNotice(own, kind, ref);
      }
    }
  }

  close(): void {
    for (const own of this.#own.values()) own.stopListening();
  }

  #listen(own: OwnSession): () => void {
    const { backend, cells, clock } = this.#parts;
    const place = sessionAt(own.id);
    // Every record that is read is passed to onContent.
    const read = async (): Promise<unknown> =>
      cells.read(place, clock.now() + LISTEN_LIMIT_MS).catch(() => undefined);
    if (backend.subscribe !== undefined)
      return backend.subscribe({ key: place.key }, (change) => {
        if (change?.record === undefined) void read();
        else cells.accept(place, change.record);
      });
    let timer: Timer;
    const plan = (): void => {
      timer = clock.setTimer(() => {
        if (own.held.size > 0 && !own.isOver) void read();
        plan();
      }, backend.facts.maxPollMs);
    };
    plan();
    return () => timer.cancel();
  }
}

function toKey(kind: Notice, { resource, token }: LeaseRef): string {
  return `${kind} ${token} ${resource}`;
}
