// Sends scripts, by their digest, each with a limit. A request that stays unanswered is "unknown"; when nothing at all
// has come back since it was sent, the connection is dropped, because TCP alone would wait a quarter of an hour. With
// `replicas`, what grants or prolongs is confirmed by WAIT behind it on the same connection: sent together, one trip.

import type { Clock } from "../../core/clock.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { failure, replyCode } from "./failures.ts";
import { type Script, scripts } from "./scripts.ts";
import type { Wire } from "./wire.ts";

export interface Call {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly limitMs: number;
  /** Must be on as many replicas as were asked for before it counts. */
  readonly confirm?: boolean | undefined;
}

/** One connection and when it was last heard of. */
interface Line {
  readonly wire: Wire;
  heardAt: number;
}

export interface RequestParts {
  readonly wire: Wire;
  readonly clock: Clock;
  readonly place: string;
  readonly replicas: number;
  /** A connection was found dead: others to the same server may be too. */
  onSilence(): void;
}

export class Requests {
  readonly #parts: RequestParts;
  readonly #shas: ReadonlyMap<Script, string>;
  readonly #main: Line;
  /** For grants that are confirmed: WAIT holds up everything behind it, and renewals must not be held up. */
  readonly #grants: Line;
  #closed = false;

  private constructor(parts: RequestParts, grants: Wire, shas: ReadonlyMap<Script, string>) {
    this.#parts = parts;
    this.#shas = shas;
    const heardAt = parts.clock.now();
    this.#main = { wire: parts.wire, heardAt };
    this.#grants = grants === parts.wire ? this.#main : { wire: grants, heardAt };
  }

  static async open(parts: RequestParts): Promise<Requests> {
    const { wire, replicas } = parts;
    const loaded = Object.values(scripts).map(async (script): Promise<[Script, string]> => {
      const sha = await wire.send(["script", "LOAD", script.text], "");
      return [script, String(sha)];
    });
    const shas = new Map(await Promise.all(loaded));
    return new Requests(parts, replicas > 0 ? await wire.duplicate() : wire, shas);
  }

  run(call: Call): Promise<string[]> {
    const { clock, place } = this.#parts;
    if (this.#closed) return Promise.reject(this.closedError());
    const line = call.confirm && call.script === scripts.grant ? this.#grants : this.#main;
    return new Promise((resolve, reject) => {
      const sentAt = clock.now();
      const giveUp = (): void => {
        if (line.heardAt < sentAt) this.#silent(line);
        const message = `Redis at ${place} did not answer "${call.script.name}" within ${Math.round(call.limitMs)} ms.`;
        reject(new StoreUnavailableError(message, { applied: "unknown" }));
      };
      const timer = clock.setTimer(giveUp, call.limitMs, { keepAlive: true });
      const answered = (answer: string[]): void => {
        timer.cancel();
        line.heardAt = clock.now();
        resolve(answer);
      };
      const failed = (error: unknown): void => {
        timer.cancel();
        reject(this.#failure(error, line));
      };
      this.#send(line.wire, call).then(answered, failed);
    });
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

  async #send(wire: Wire, call: Call): Promise<string[]> {
    const sha = this.#shas.get(call.script) ?? "";
    try {
      return await this.#evaluate(wire, ["evalsha", sha], call);
    } catch (error) {
      // The server forgets its scripts when it restarts; sending the text once teaches it again.
      if (replyCode(error) !== "NOSCRIPT") throw error;
      return await this.#evaluate(wire, ["eval", call.script.text], call);
    }
  }

  async #evaluate(wire: Wire, what: readonly string[], call: Call): Promise<string[]> {
    const { replicas } = this.#parts;
    const { keys, args, limitMs } = call;
    const [key = ""] = keys;
    const sent = wire.send([...what, String(keys.length), ...keys, ...args], key);
    if (!call.confirm || replicas === 0) return texts(await sent);
    const waitMs = String(Math.max(1, Math.floor(limitMs / 2)));
    const [answer, copies] = await Promise.all([
      sent,
      wire.send(["wait", String(replicas), waitMs], key),
    ]);
    if (Number(copies) < replicas) throw new TooFewCopiesError(Number(copies), replicas);
    return texts(answer);
  }

  #failure(error: unknown, line: Line): Error {
    const { place, clock } = this.#parts;
    if (error instanceof TooFewCopiesError) {
      line.heardAt = clock.now();
      return new StoreUnavailableError(
        `Only ${error.copies} of ${error.wanted} replicas of Redis at ${place} confirmed the write in time (option \`replicas\`).`,
        { applied: "unknown", cause: error },
      );
    }
    const code = replyCode(error);
    if (code !== undefined) line.heardAt = clock.now();
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
  return Array.isArray(answer) ? answer.map(String) : [];
}
