// Grants and releases that one session asks for while others are under way leave together, as one call: what a request costs
// on both sides is mostly the request itself. One alone leaves at once. Each is decided and answered on its own; when the
// answer of the call is lost, the fate of each is unknown, as it would have been alone.

import type { Clock } from "../../async/clock.ts";
import type { SessionRequest } from "../contract.ts";
import type { Names } from "./names.ts";
import type { Call, Requests } from "./requests.ts";
import { scripts } from "./scripts.ts";

/** More in one call would gain little, and would hold up the server, and whoever is first in the call, for longer. */
const TOGETHER_MAX = 16;
const FAILED = "error ";

export interface BundleParts {
  readonly requests: Requests;
  readonly names: Names;
  readonly clock: Clock;
  /** Grants are confirmed by replicas, which takes time, and releases are not. */
  readonly confirm: boolean;
}

interface LeaseRequest extends SessionRequest {
  readonly resource: string;
}

/** A grant, a grant or a place in the queue, a release. */
type Act = "g" | "q" | "r";

/** What an answer means. */
type Meaning<R, T> = (answer: string, request: R) => T;

export class Bundles {
  readonly #parts: BundleParts;
  /** What leaves when this turn is over. */
  #waiting: Ask[] = [];
  #underWay = 0;

  constructor(parts: BundleParts) {
    this.#parts = parts;
  }

  get confirms(): boolean {
    return this.#parts.confirm;
  }

  /** `claim` says what the script is to be told. */
  ask<R extends LeaseRequest, T>(
    act: Act,
    request: R,
    claim: (request: R) => string,
    meaning: Meaning<R, T>,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#add(new AskOf(act, request, claim(request), meaning, resolve, reject));
    });
  }

  /** Sends what waits: whatever is sent next arrives behind it. */
  flush(): void {
    const asks = this.#waiting;
    if (asks.length === 0) return;
    this.#waiting = [];
    this.#underWay += 1;
    const { requests } = this.#parts;
    const answered = (answers: readonly string[]): void => {
      this.#underWay -= 1;
      asks.forEach((ask, index) => {
        const answer = answers[index] ?? "";
        if (!answer.startsWith(FAILED)) ask.answered(answer);
        else ask.failed(requests.refusal(answer.slice(FAILED.length)));
      });
    };
    const failed = (error: unknown): void => {
      this.#underWay -= 1;
      for (const ask of asks) ask.failed(error);
    };
    requests.send(this.#callOf(asks), answered, failed);
  }

  #add(ask: Ask): void {
    if (this.#waiting.length > 0 && !this.#fits(ask)) this.flush();
    this.#waiting.push(ask);
    if (this.#underWay === 0 || this.#waiting.length >= TOGETHER_MAX) this.flush();
    else if (this.#waiting.length === 1) this.#parts.clock.soon(() => this.flush());
  }

  /** One session and one limit a call, and no lease twice. */
  #fits({ act, request }: Ask): boolean {
    const [first] = this.#waiting;
    if (first?.request.sessionId !== request.sessionId) return false;
    if (first.request.limitMs !== request.limitMs) return false;
    if (this.#parts.confirm && (first.act === "r") !== (act === "r")) return false;
    return this.#waiting.every((other) => other.request.resource !== request.resource);
  }

  #callOf(asks: readonly Ask[]): Call {
    const { names } = this.#parts;
    const [{ act, request }] = asks as [Ask];
    const { sessionId, limitMs } = request;
    const keys = [names.session(sessionId)];
    const args: string[] = [];
    let acts = "";
    for (const ask of asks) {
      keys.push(names.lease(ask.request.resource));
      args.push(ask.claim);
      acts += ask.act;
    }
    if (acts.includes("q")) args.push(acts);
    const confirm = act !== "r" && this.#parts.confirm;
    return { script: scripts.bundle, keys, args, limitMs, confirm };
  }
}

interface Ask {
  readonly act: Act;
  readonly request: LeaseRequest;
  readonly claim: string;
  answered(answer: string): void;
  failed(error: unknown): void;
}

class AskOf<R extends LeaseRequest, T> implements Ask {
  readonly act: Act;
  readonly request: R;
  readonly claim: string;
  readonly failed: (error: unknown) => void;
  readonly #meaning: Meaning<R, T>;
  readonly #resolve: (outcome: T) => void;

  constructor(
    act: Act,
    request: R,
    claim: string,
    meaning: Meaning<R, T>,
    resolve: (outcome: T) => void,
    reject: (error: unknown) => void,
  ) {
    this.act = act;
    this.request = request;
    this.claim = claim;
    this.failed = reject;
    this.#meaning = meaning;
    this.#resolve = resolve;
  }

  answered(answer: string): void {
    try {
      this.#resolve(this.#meaning(answer, this.request));
    } catch (error) {
      // What the server keeps cannot be read: the others in the call still get theirs.
      this.failed(error);
    }
  }
}
