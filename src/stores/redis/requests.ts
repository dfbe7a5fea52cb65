// Sends scripts, by their digest, each with a limit. A request that stays unanswered is "unknown"; when nothing at all
// has come back since it was sent, the connection is dropped, because TCP alone would wait a quarter of an hour. With
// `replicas`, what grants or prolongs is confirmed by WAIT behind it on the same connection: sent together, one trip.

import type { Clock } from "../../async/clock.ts";
import { getSharedLimits, type Limits } from "../../async/limits.ts";
import { scriptDigest } from "../../clients/redis/digest.ts";
import { failure, replyCode } from "../../clients/redis/failures.ts";
import type { Wire } from "../../clients/redis/wire.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import type { Names } from "./names.ts";
import type { Script } from "./script-library.ts";
import { scripts } from "./scripts.ts";

export interface Call {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly limitMs: number;
  /** Must be on as many replicas as were asked for before it counts. */
  readonly confirm?: boolean | undefined;
}

/** A script for this namespace. */
interface Loaded {
  readonly text: string;
  readonly sha: string;
}

/** One connection and how often it was heard of. */
interface Line {
  readonly wire: Wire;
  heard: number;
}

export interface RequestParts {
  readonly wire: Wire;
  readonly clock: Clock;
  readonly place: string;
  readonly names: Names;
  /** A new process of this server may have the scripts of the one before: every call compares the run id (INFO). */
  readonly keepsScripts: boolean;
  readonly replicas: number;
  /** A connection was found dead: others to the same server may be too. */
  onSilence(): void;
}

export class Requests {
  readonly #parts: RequestParts;
  readonly #limits: Limits;
  readonly #loaded: ReadonlyMap<Script, Loaded>;
  readonly #main: Line;
  /** For grants that are confirmed: WAIT holds up everything behind it, and renewals must not be held up. */
  readonly #grants: Line;
  #closed = false;

  private constructor(parts: RequestParts, grants: Wire, loaded: ReadonlyMap<Script, Loaded>) {
    this.#parts = parts;
    this.#limits = getSharedLimits(parts.clock);
    this.#loaded = loaded;
    this.#main = { wire: parts.wire, heard: 0 };
    this.#grants = grants === parts.wire ? this.#main : { wire: grants, heard: 0 };
  }

  static async open(parts: RequestParts): Promise<Requests> {
    const { wire, replicas, names } = parts;
    // Not by SCRIPT LOAD: a server that has a script must have started its era (VERIFY in script-library.ts).
    const loaded = new Map(
      Object.values(scripts).map((script): [Script, Loaded] => {
        const text = script.text.replaceAll("<base>", names.base);
        return [script, { text, sha: scriptDigest(text) }];
      }),
    );
    return new Requests(parts, replicas > 0 ? await wire.duplicate() : wire, loaded);
  }

  run(call: Call): Promise<string[]> {
    return new Promise((resolve, reject) => this.send(call, resolve, reject));
  }

  /** The same for who needs no promise: one of the two is called, once. */
  send(call: Call, resolve: (answer: string[]) => void, reject: (error: Error) => void): void {
    if (this.#closed) {
      reject(this.closedError());
      return;
    }
    const line = call.confirm && call.script === scripts.bundle ? this.#grants : this.#main;
    const heard = line.heard;
    let isOver = false;
    const limit = this.#limits.start(call.limitMs, () => {
      isOver = true;
      if (line.heard === heard) this.#silent(line);
      reject(this.#tooLate(call));
    });
    const answered = (answer: unknown): void => {
      limit.end();
      line.heard += 1;
      if (!isOver) resolve(texts(answer));
    };
    const failed = (error: unknown): void => {
      limit.end();
      const reason = this.#failure(error, line);
      if (!isOver) reject(reason);
    };
    const { sha, text } = this.#loaded.get(call.script) as Loaded;
    const first = this.#parts.keepsScripts ? this.#verified(call) : call;
    this.#evaluate(line, "evalsha", sha, first, answered, (error: unknown) => {
      // Too late: the caller has been told that the outcome is unknown, and may have withdrawn it.
      if (isOver || replyCode(error) !== "NOSCRIPT") return failed(error);
      // A server process that does not have the script starts its era before it grants anything.
      this.#evaluate(line, "eval", text, this.#verified(call), answered, failed);
    });
  }

  #verified(call: Call): Call {
    return { ...call, keys: [...call.keys, this.#parts.names.era] };
  }

  /** What the error means that a script caught for one of many. */
  refusal(text: string): Error {
    // Before 7.0 it begins with the place in the script.
    return this.#failure(new Error(/^[A-Z]/.test(text) ? text : `ERR ${text}`), this.#main);
  }

  closedError(): StoreUnavailableError {
    return new StoreUnavailableError(`The store of Redis at ${this.#parts.place} is closed.`, {
      applied: "no",
    });
  }

  close(): void {
    this.#closed = true;
    this.#main.wire.close();
    if (this.#grants !== this.#main) this.#grants.wire.close();
  }

  #evaluate(
    { wire }: Line,
    command: "evalsha" | "eval",
    script: string,
    { keys, args, confirm, limitMs }: Call,
    answered: (answer: unknown) => void,
    failed: (error: unknown) => void,
  ): void {
    const [key = ""] = keys;
    const words = [command, script, String(keys.length), ...keys, ...args];
    try {
      const sent = wire.send(words, key);
      const isConfirmed = confirm && this.#parts.replicas > 0;
      (isConfirmed ? this.#confirmed(wire, sent, key, limitMs) : sent).then(answered, failed);
    } catch (error) {
      // The user's client may throw where others reject.
      failed(error);
    }
  }

  async #confirmed(
    wire: Wire,
    sent: Promise<unknown>,
    key: string,
    limitMs: number,
  ): Promise<unknown> {
    const { replicas } = this.#parts;
    const waitMs = String(Math.max(1, Math.floor(limitMs / 2)));
    const [answer, copies] = await Promise.all([
      sent,
      wire.send(["wait", String(replicas), waitMs], key),
    ]);
    if (Number(copies) < replicas) throw new TooFewCopiesError(Number(copies), replicas);
    return answer;
  }

  #tooLate(call: Call): StoreUnavailableError {
    const message = `Redis at ${this.#parts.place} did not answer "${call.script.name}" within ${Math.round(call.limitMs)} ms.`;
    return new StoreUnavailableError(message, { applied: "unknown" });
  }

  #failure(error: unknown, line: Line): Error {
    const { place } = this.#parts;
    if (error instanceof TooFewCopiesError) {
      line.heard += 1;
      return new StoreUnavailableError(
        `Only ${error.copies} of ${error.wanted} replicas of Redis at ${place} confirmed the write in time (option \`replicas\`).`,
        { applied: "unknown", cause: error },
      );
    }
    const code = replyCode(error);
    if (code !== undefined) line.heard += 1;
    // Behind a name or an address that moves with the master, a new connection finds the new one.
    if (code === "READONLY") line.wire.reset();
    return this.#closed ? this.closedError() : failure(error, place);
  }

  #silent(line: Line): void {
    line.wire.reset();
    this.#parts.onSilence();
  }
}

/** The write stands here, but not on as many replicas as were asked for. */
export class TooFewCopiesError extends Error {
  readonly copies: number;
  readonly wanted: number;

  constructor(copies: number, wanted: number) {
    super(`${copies} of ${wanted} replicas`);
    this.copies = copies;
    this.wanted = wanted;
  }
}

function texts(answer: unknown): string[] {
  return Array.isArray(answer) ? answer.map(String) : [String(answer)];
}
