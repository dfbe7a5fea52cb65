// Sends scripts by their digest, each with a time limit. A request without an answer is "unknown".
// If nothing at all was received since it was sent, the connection is replaced, because TCP alone
// would wait for a quarter of an hour. With `replicas`, each request that grants or renews is
// followed by WAIT on the same connection, so the confirmation takes no extra round trip.

import type { Clock } from "../../async/clock.ts";
import { getSharedLimits, type Limits } from "../../async/limits.ts";
import { sha1Hex } from "../../clients/redis/digest.ts";
import { failure, replyCode } from "../../clients/redis/failures.ts";
import type { Wire } from "../../clients/redis/wire.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import type { Script } from "./grant.lua.ts";
import type { Names } from "./names.ts";
import { scripts } from "./scripts.lua.ts";

export interface Call {
  readonly script: Script;
  readonly args: readonly string[];
  readonly limitMs: number;
  /** Counts only after `replicas` replicas have it. */
  readonly confirm?: boolean | undefined;
}

/** One connection, and how many answers were received on it. */
interface Line {
  readonly wire: Wire;
  received: number;
}

export interface RequestParts {
  readonly wire: Wire;
  readonly clock: Clock;
  /** The address of the server, without a login. */
  readonly place: string;
  readonly names: Names;
  /** Before 7.0 a new server process may have the scripts of the previous one. */
  readonly keepsScripts: boolean;
  readonly replicas: number;
  /** A connection was silent, so others to the same server may be dead too. */
  onSilence(): void;
}

export class Requests {
  readonly #parts: RequestParts;
  readonly #limits: Limits;
  /** The scripts of this namespace. */
  readonly #loaded: ReadonlyMap<Script, { readonly text: string; readonly sha: string }>;
  readonly #main: Line;
  /** For confirmed grants: WAIT blocks its connection, and it must not delay renewals. */
  readonly #grants: Line;
  #isClosed = false;

  private constructor(parts: RequestParts, grants: Wire) {
    this.#parts = parts;
    this.#limits = getSharedLimits(parts.clock);
    this.#main = { wire: parts.wire, received: 0 };
    this.#grants = grants === parts.wire ? this.#main : { wire: grants, received: 0 };
    const load = (script: Script): [Script, { text: string; sha: string }] => {
      const text = script.text.replaceAll("<base>", parts.names.base);
      return [script, { text, sha: sha1Hex(text) }];
    };
    this.#loaded = new Map(Object.values(scripts).map(load));
  }

  static async open(parts: RequestParts): Promise<Requests> {
    return new Requests(parts, parts.replicas > 0 ? await parts.wire.duplicate() : parts.wire);
  }

  /** Whether grants are confirmed by replicas. */
  get confirms(): boolean {
    return this.#parts.replicas > 0;
  }

  run(call: Call): Promise<string[]> {
    return new Promise((resolve, reject) => this.send(call, resolve, reject));
  }

  /** Calls one of the two functions once. */
  send(call: Call, resolve: (answer: string[]) => void, reject: (error: Error) => void): void {
    if (this.#isClosed) {
      reject(this.closedError());
      return;
    }
    const { keepsScripts } = this.#parts;
    const isGrant = call.script === scripts.batch || call.script === scripts.confirm;
    const line = call.confirm && isGrant ? this.#grants : this.#main;
    const { received } = line;
    let isOver = false;
    const limit = this.#limits.start(call.limitMs, () => {
      isOver = true;
      if (line.received === received) this.#replaceSilent(line);
      reject(this.#toLateError(call));
    });
    const answered = (answer: unknown): void => {
      limit.end();
      line.received += 1;
      if (!isOver) resolve(Array.isArray(answer) ? answer.map(String) : []);
    };
    const failed = (error: unknown): void => {
      limit.end();
      const reason = this.#toFailure(error, line);
      if (!isOver) reject(reason);
    };
    const { sha, text } = this.#loaded.get(call.script) as { text: string; sha: string };
    this.#evaluate(line, ["evalsha", sha], call, keepsScripts, answered, (error: unknown) => {
      // After the limit the outcome counts as unknown, and the caller may have withdrawn it.
      if (isOver || replyCode(error) !== "NOSCRIPT") return failed(error);
      // A server process that does not have the script starts its era before it grants anything.
      this.#evaluate(line, ["eval", text], call, true, answered, failed);
    });
  }

  /** The error that a script reported for one request of a batch. */
  toError(text: string): Error {
    // Before 7.0 it begins with the position in the script.
    return this.#toFailure(new Error(/^[A-Z]/.test(text) ? text : `ERR ${text}`), this.#main);
  }

  closedError(): StoreUnavailableError {
    return new StoreUnavailableError(`The store of Redis at ${this.#parts.place} is closed.`, {
      applied: "no",
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#main.wire.close();
    if (this.#grants !== this.#main) this.#grants.wire.close();
  }

  #evaluate(
    { wire }: Line,
    command: readonly [command: string, script: string],
    { args, confirm, limitMs }: Call,
    verifiesEra: boolean,
    answered: (answer: unknown) => void,
    failed: (error: unknown) => void,
  ): void {
    const { token, era } = this.#parts.names;
    const keys = verifiesEra ? ["2", token, era] : ["1", token];
    try {
      const sent = wire.send([...command, ...keys, ...args], token);
      const isConfirmed = confirm === true && this.confirms;
      (isConfirmed ? this.#confirmed(wire, sent, limitMs) : sent).then(answered, failed);
    } catch (error) {
      // A user's client may throw instead of rejecting.
      failed(error);
    }
  }

  async #confirmed(wire: Wire, sent: Promise<unknown>, limitMs: number): Promise<unknown> {
    const { replicas, names } = this.#parts;
    const waitMs = String(Math.max(1, Math.floor(limitMs / 2)));
    const waited = wire.send(["wait", String(replicas), waitMs], names.token);
    const [answer, copies] = await Promise.all([sent, waited]);
    if (Number(copies) < replicas) throw new TooFewCopiesError(Number(copies), replicas);
    return answer;
  }

  #toLateError(call: Call): StoreUnavailableError {
    const message = `Redis at ${this.#parts.place} did not answer "${call.script.name}" within ${Math.round(call.limitMs)} ms.`;
    return new StoreUnavailableError(message, { applied: "unknown" });
  }

  #toFailure(error: unknown, line: Line): Error {
    const { place } = this.#parts;
    if (error instanceof TooFewCopiesError) {
      line.received += 1;
      return new StoreUnavailableError(
        `Only ${error.copies} of ${error.wanted} replicas of Redis at ${place} confirmed the write in time (option \`replicas\`).`,
        { applied: "unknown", cause: error },
      );
    }
    const code = replyCode(error);
    if (code !== undefined) line.received += 1;
    // If the address follows the master, a new connection reaches the new one.
    if (code === "READONLY") line.wire.reset();
    return this.#isClosed ? this.closedError() : failure(error, place);
  }

  #replaceSilent(line: Line): void {
    line.wire.reset();
    this.#parts.onSilence();
  }
}

/** The master has the write, but too few replicas have it. */
export class TooFewCopiesError extends Error {
  readonly copies: number;
  readonly wanted: number;

  constructor(copies: number, wanted: number) {
    super(`${copies} of ${wanted} replicas`);
    this.copies = copies;
    this.wanted = wanted;
  }
}
