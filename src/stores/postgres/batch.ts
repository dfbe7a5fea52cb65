// Sends grants and releases. Those of the same turn of the event loop share one statement, and so
// one round trip, one commit and one flush to disk. A grant that is requested while nothing is in
// flight leaves at once, together with the releases of that turn. So a process that releases one
// lease and acquires the next one pays a single round trip. The database decides each request by
// itself.

import type { Clock } from "../../async/clock.ts";
import { StoreUnavailableError } from "../../core/errors.ts";

/** A request, as the function `step` in grant.sql.ts reads it. */
export type Step =
  | {
      readonly kind: "release";
      readonly resource: string;
      readonly session: string;
      readonly token: string;
      readonly preferred: string | undefined;
    }
  | {
      readonly kind: "grant";
      readonly resource: string;
      readonly session: string;
      readonly attempt: string;
      readonly holder: string;
      readonly record: string;
      readonly rank: number;
      readonly queue: boolean;
    };

/** What happened, and what belongs to it. */
export type StepAnswer = readonly [kind: string, ...facts: unknown[]];

/**
 * Sends steps. `waits`: for locked rows. Otherwise a step whose row is locked is answered null.
 */
export type SendSteps = (
  steps: readonly Step[],
  waits: boolean,
  limitMs: number,
) => Promise<readonly (StepAnswer | null)[]>;

interface Pending {
  readonly step: Step;
  readonly endsAt: number;
  resolve(answer: StepAnswer): void;
  reject(reason: unknown): void;
}

/** A larger batch would delay the answer of its first request too long. */
const BATCH_MAX = 16;

export class Batch {
  readonly #clock: Clock;
  readonly #sendSteps: SendSteps;
  #pending: Pending[] = [];
  #inFlight = 0;
  /** How many releases of each resource are in flight. Grants of that resource wait for them. */
  readonly #releasing = new Map<string, number>();
  #isScheduled = false;

  constructor(clock: Clock, sendSteps: SendSteps) {
    this.#clock = clock;
    this.#sendSteps = sendSteps;
  }

  ask(step: Step, limitMs: number): Promise<StepAnswer> {
    return new Promise((resolve, reject) => {
      const endsAt = this.#clock.now() + limitMs;
      this.#pending.push({ step, endsAt, resolve, reject });
      if (step.kind === "grant" && this.#inFlight === 0) this.#flush();
      else this.#flushSoon();
    });
  }

  #flushSoon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.soon(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    const pending = this.#pending;
    this.#pending = [];
    let batch: Pending[] = [];
    for (const each of pending) {
      const { resource, kind } = each.step;
      if (each.endsAt < this.#clock.now()) {
        const message = `The request for ${resource} could not be sent in time.`;
        each.reject(new StoreUnavailableError(message, { applied: "no", resource }));
        continue;
      }
      if (kind === "grant" && this.#releasing.has(resource)) {
        this.#pending.push(each);
        continue;
      }
      // Requests for the same resource stay together: the function handles them in their order.
      if (batch.length >= BATCH_MAX && batch.every(({ step }) => step.resource !== resource)) {
        void this.#send(batch);
        batch = [];
      }
      batch.push(each);
    }
    if (batch.length > 0) void this.#send(batch);
  }

  async #send(batch: readonly Pending[]): Promise<void> {
    const steps = batch.map(({ step }) => step);
    const isOneResource = steps.every(({ resource }) => resource === steps[0]?.resource);
    const limitMs = Math.min(...batch.map(({ endsAt }) => endsAt)) - this.#clock.now();
    let answers: readonly (StepAnswer | null)[] = [];
    this.#count(steps, 1);
    try {
      answers = await this.#sendSteps(steps, isOneResource, limitMs);
    } catch (error) {
      // A lost answer is lost for every request. An error that the server sent does not say which
      // request caused it, and nothing was applied: each resource is tried by itself.
      if (isOneResource || error instanceof StoreUnavailableError) {
        for (const { reject } of batch) reject(error);
        return;
      }
    } finally {
      this.#count(steps, -1);
      if (this.#pending.length > 0) this.#flushSoon();
    }
    const undecided = new Map<string, Pending[]>();
    for (const [index, each] of batch.entries()) {
      const answer = answers[index] ?? null;
      const { resource } = each.step;
      if (answer !== null) each.resolve(answer);
      else undecided.set(resource, [...(undecided.get(resource) ?? []), each]);
    }
    for (const same of undecided.values()) void this.#send(same);
  }

  #count(steps: readonly Step[], change: 1 | -1): void {
    this.#inFlight += change;
    for (const { kind, resource } of steps) {
      if (kind !== "release") continue;
      const count = (this.#releasing.get(resource) ?? 0) + change;
      if (count > 0) this.#releasing.set(resource, count);
      else this.#releasing.delete(resource);
    }
  }
}

/**
 * The values of `regrant` in grant.sql.ts, which is faster than `step`. Undefined if it does not
 * apply to these steps.
 */
export function toRegrant(steps: readonly Step[]): readonly (string | null)[] | undefined {
  const last = steps.at(-1);
  const [first] = steps;
  if (last?.kind !== "grant" || steps.length > 2) return undefined;
  const released = first?.kind === "release" ? first : undefined;
  if (steps.length === 2) {
    const { resource, session } = last;
    const isSame = released?.resource === resource && released.session === session;
    if (!isSame || released.preferred !== undefined) return undefined;
  }
  const { resource, session, attempt, holder, record, rank, queue } = last;
  const token = released?.token ?? null;
  return [resource, session, token, attempt, holder, record, String(rank), String(queue)];
}
