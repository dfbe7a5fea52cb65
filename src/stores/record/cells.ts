// Reads and changes single records. A change decides by the content of a record, then writes if its
// version is unchanged. The last known version is cached, so this usually takes one round trip. If
// the answer to a write is lost, we read the record back and compare nonces. This process changes a
// record in the order of its requests.

import { pause } from "../../async/waits.ts";
import { isTenureError, StoreUnavailableError } from "../../core/errors.ts";
import { utf8Length } from "../../core/text.ts";
import type { StoreParts } from "../contract.ts";
import type { RecordBackend, VersionedRecord, WriteOutcome, WriteRequest } from "./backend.ts";
import { type Place, readNonce } from "./records.ts";

/** The result of a decision: an answer, and the new content unless nothing needs to change. */
interface Decision<Content, Answer> {
  readonly write?: Content | undefined;
  readonly answer: Answer;
}

/** `inDoubt`: an earlier write of this change may have been applied and overwritten since. */
type Decide<Content, Answer> = (
  content: Content,
  inDoubt: boolean,
) => Decision<Content, Answer> | Promise<Decision<Content, Answer>>;

interface Cell {
  readonly content: unknown;
  readonly version: string | undefined;
}

type Request = Omit<WriteRequest, "limitMs">;
/** Applied, or what was found instead. */
type Written = { readonly version: string } | { readonly found: VersionedRecord | undefined };

/** One request of a caller, which may need several requests to the backend. */
interface Pass {
  readonly endsAt: number;
  /** The failure after which a write of this request may have been applied. */
  doubt: unknown;
}

/** The oldest entry is dropped when there are more. The next change of that record reads it. */
const CACHED_MAX = 10_000;
/** The longest pause between two tries. The first repetition does not wait. */
const BACKOFF_MAX_MS = 200;

export class Cells {
  readonly #backend: RecordBackend;
  readonly #parts: StoreParts;
  readonly #closing: AbortSignal;
  readonly #cache = new Map<string, Cell>();
  /** The last requested change of each record that is being changed. */
  readonly #turns = new Map<string, Promise<unknown>>();
  /** Called with every content that was read, or written by this process. */
  onContent: (key: string, content: unknown, record?: VersionedRecord) => void = () => undefined;

  constructor(backend: RecordBackend, parts: StoreParts, closing: AbortSignal) {
    this.#backend = backend;
    this.#parts = parts;
    this.#closing = closing;
  }

  async read<Content>(place: Place<Content>, endsAt: number): Promise<Content> {
    const record = await this.#backend.read(place.key, this.#leftMs(endsAt));
    return this.#keep(place, record).content as Content;
  }

  /** The cached content, which may be outdated. */
  peek<Content>({ key }: Place<Content>): Content | undefined {
    return this.#cache.get(key)?.content as Content | undefined;
  }

  /** Lets the first change of a record create it without reading it before. */
  assumeMissing({ key, missing }: Place<unknown>): void {
    this.#remember(key, { content: missing, version: undefined });
  }

  /** Takes a record that the backend has pushed or listed. It may be older than the cached one. */
  accept<Content>(place: Place<Content>, record: VersionedRecord): Content {
    return this.#keep(place, record).content as Content;
  }

  /** Changes a record. `decide` is called again whenever the record turns out to be different. */
  change<Content, Answer>(
    place: Place<Content>,
    endsAt: number,
    decide: Decide<Content, Answer>,
  ): Promise<Answer> {
    const { key } = place;
    const pass: Pass = { endsAt, doubt: undefined };
    const turn = (this.#turns.get(key) ?? Promise.resolve())
      .then(() => this.#change(place, pass, decide))
      .catch((error: unknown) => {
        // A timeout means "unknown", whatever failed after it.
        throw pass.doubt === undefined ? error : this.#unavailable("unknown", pass.doubt);
      });
    const settled = turn
      .catch(() => undefined)
      .then(() => void (this.#turns.get(key) === settled && this.#turns.delete(key)));
    this.#turns.set(key, settled);
    return turn;
  }

  async #change<Content, Answer>(
    place: Place<Content>,
    pass: Pass,
    decide: Decide<Content, Answer>,
  ): Promise<Answer> {
    let isFresh = false;
    let cell = this.#cache.get(place.key);
    for (let tries = 0; ; tries += 1) {
      if (cell === undefined) {
        cell = this.#keep(place, await this.#readBack(place.key, pass));
        isFresh = true;
      }
      const { write, answer } = await decide(cell.content as Content, pass.doubt !== undefined);
      if (write !== undefined) {
        const outcome = await this.#write(this.#toRequest(place, write, cell), pass);
        if ("version" in outcome) {
          this.#remember(place.key, { content: write, version: outcome.version });
          this.onContent(place.key, write);
          return answer;
        }
        cell = this.#keep(place, outcome.found);
        isFresh = true;
        await this.#backOff(tries, pass);
      } else if (isFresh) return answer;
      // A cached record proves nothing by itself.
      else cell = undefined;
    }
  }

  #toRequest<Content>({ key, encode }: Place<Content>, content: Content, cell: Cell): Request {
    const nonce = this.#parts.random.id();
    const body = encode(content, nonce);
    const { store, maxBodyBytes } = this.#backend.facts;
    const bytes = utf8Length(body);
    if (bytes <= maxBodyBytes) return { key, body, nonce, version: cell.version };
    const detail = `would have ${bytes} bytes; ${store} allows ${maxBodyBytes}`;
    const advice = "Too many attempts wait for one resource, or their values are too large.";
    throw new StoreUnavailableError(`The record "${key}" ${detail}. ${advice}`, { applied: "no" });
  }

  /** Writes once, however often it is sent. Throws if it cannot find out what happened in time. */
  async #write(request: Request, pass: Pass): Promise<Written> {
    for (let tries = 0; ; tries += 1) {
      const outcome = await this.#send(request, pass);
      if (outcome?.kind === "written") return outcome;
      const found = outcome?.found ? outcome.found.record : await this.#readBack(request.key, pass);
      // Our own write: its answer was lost, or an earlier copy of it came first.
      if (found !== undefined && readNonce(found.body) === request.nonce) return found;
      // If the version has changed, the write can never be applied any more.
      if (outcome !== undefined || found?.version !== request.version) return { found };
      // Not applied yet, but it may still arrive. A copy with the same nonce settles that.
      await this.#backOff(tries, pass);
    }
  }

  /** Undefined if the write may have been applied. */
  async #send(request: Request, pass: Pass): Promise<WriteOutcome | undefined> {
    const leftMs = this.#leftMs(pass.endsAt);
    // Leaves time to read back what a lost answer did.
    const limitMs = Math.max(leftMs * 0.6, leftMs - 2_000);
    try {
      return await this.#backend.write({ ...request, limitMs });
    } catch (error) {
      const isNotApplied = isTenureError(error, "STORE_UNAVAILABLE") && error.applied === "no";
      if (isNotApplied && pass.doubt === undefined) throw error;
      pass.doubt ??= error;
      return undefined;
    }
  }

  /** Reads a record. If a write is in doubt, it is read until that succeeds or time is up. */
  async #readBack(key: string, pass: Pass): Promise<VersionedRecord | undefined> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#backend.read(key, this.#leftMs(pass.endsAt));
      } catch (error) {
        if (pass.doubt === undefined || !isTenureError(error, "STORE_UNAVAILABLE")) throw error;
      }
      await this.#backOff(tries, pass);
    }
  }

  #keep<Content>(place: Place<Content>, record: VersionedRecord | undefined): Cell {
    const { key, missing, decode } = place;
    this.#cache.delete(key);
    // A malformed record throws here and is not cached.
    const content = record === undefined ? missing : decode(record.body);
    const cell = { content, version: record?.version };
    this.#remember(key, cell);
    this.onContent(key, content, record);
    return cell;
  }

  #remember(key: string, cell: Cell): void {
    this.#cache.delete(key);
    this.#cache.set(key, cell);
    const [oldest] = this.#cache.keys();
    if (this.#cache.size > CACHED_MAX && oldest !== undefined) this.#cache.delete(oldest);
  }

  /** Processes that change the same record must not retry in step. */
  async #backOff(tries: number, { endsAt }: Pass): Promise<void> {
    if (tries === 0) return;
    const { clock, random } = this.#parts;
    const delayMs = Math.min(BACKOFF_MAX_MS, 2 ** tries) * (0.5 + random.next());
    await pause(clock, Math.min(delayMs, this.#leftMs(endsAt)));
  }

  /** The time that is left. Throws if it is used up, or if the store is closed. */
  #leftMs(endsAt: number): number {
    if (this.#closing.aborted) throw this.#closing.reason;
    const leftMs = endsAt - this.#parts.clock.now();
    if (leftMs > 0) return leftMs;
    throw this.#unavailable("no");
  }

  #unavailable(applied: "no" | "unknown", cause?: unknown): StoreUnavailableError {
    const message = `The ${this.#backend.facts.store} store did not answer in time.`;
    return new StoreUnavailableError(message, { applied, cause });
  }
}
