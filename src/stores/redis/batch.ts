// Sends the grants and releases of one turn of the event loop together, because most of the cost of
// a small request is the request itself. In particular, a release that is not awaited shares a
// request with the next grant. Each is decided and answered separately. If the answer to the batch
// is lost, the outcome of each is unknown.

import type { StoreParts } from "../contract.ts";
import type { Requests } from "./requests.ts";
import { scripts, WORDS } from "./scripts.lua.ts";

/** A larger batch would block the server, and delay its first answer, for too long. */
const BATCH_MAX = 16;
const FAILED = "error ";

/** One request, with its words as scripts.lua.ts takes them. */
export interface Ask {
  readonly kind: "grant" | "queue" | "release";
  readonly words: readonly string[];
  readonly limitMs: number;
}

interface Pending extends Ask {
  resolve(answer: string): void;
  reject(error: unknown): void;
}

export class Batch {
  readonly #requests: Requests;
  readonly #soon: (callback: () => void) => void;
  readonly #stopListening: (() => void) | undefined;
  #pending: Pending[] = [];

  constructor(requests: Requests, { clock, onExit }: Pick<StoreParts, "clock" | "onExit">) {
    this.#requests = requests;
    this.#soon = (callback) => clock.soon(callback);
    // A release that withLease() has not awaited would be lost if the process exits in this turn.
    this.#stopListening = onExit?.(() => this.flush());
  }

  ask(ask: Ask): Promise<string> {
    return new Promise((resolve, reject) => {
      const { kind, words, limitMs } = ask;
      const pending = { kind, words, limitMs, resolve, reject };
      if (this.#pending.push(pending) === 1) this.#soon(() => this.flush());
    });
  }

  /** Sends everything now, so that the next request of another kind arrives after it. */
  flush(): void {
    const pending = this.#pending;
    this.#pending = [];
    for (let from = 0; from < pending.length; ) {
      let to = from + 1;
      while (to < pending.length && to - from < BATCH_MAX && this.#fit(pending[from], pending[to]))
        to += 1;
      this.#send(pending.slice(from, to));
      from = to;
    }
  }

  close(): void {
    this.#stopListening?.();
    this.flush();
  }

  /** One call has one limit, and grants that replicas must confirm must not delay releases. */
  #fit(one: Pending | undefined, other: Pending | undefined): boolean {
    if (one?.limitMs !== other?.limitMs) return false;
    return !this.#requests.confirms || (one?.kind === "release") === (other?.kind === "release");
  }

  #send(batch: readonly Pending[]): void {
    const [{ kind, limitMs }] = batch as [Pending];
    const args: string[] = [];
    for (const asked of batch) {
      args.push(asked.kind, ...asked.words);
      for (let words = asked.words.length + 1; words < WORDS; words += 1) args.push("");
    }
    const answered = (answers: readonly string[]): void =>
      batch.forEach(({ resolve, reject }, index) => {
        const answer = answers[index] ?? "";
        if (!answer.startsWith(FAILED)) resolve(answer);
        else reject(this.#requests.toError(answer.slice(FAILED.length)));
      });
    const failed = (error: unknown): void => {
      for (const { reject } of batch) reject(error);
    };
    const confirm = kind !== "release";
    this.#requests.send({ script: scripts.batch, args, limitMs, confirm }, answered, failed);
  }
}
