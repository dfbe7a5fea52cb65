// Tells waiters that a resource may be free. One connection of its own hears what the database tells on the schema's channel; it is
// opened by the first waiter, proved by a notification of our own (behind a transaction pooler none arrives), watched by
// a heartbeat, and opened again when it breaks. While there is none, waiters look again by the clock.

import type { Clock, Random, Timer } from "../../async/clock.ts";
import type { Ear, PgLink } from "../../clients/postgres/link.ts";
import { type Backoff, backoffMs } from "../../core/backoff.ts";
import { HEAD_START_MS } from "../contract.ts";
import { Wakeup } from "../shared/wakeup.ts";
import { parseNotice } from "./notices.ts";

export interface WakerParts {
  readonly link: PgLink;
  readonly clock: Clock;
  readonly random: Random;
  readonly channel: string;
  readonly listens: boolean;
  /** Tells this on the channel, through another connection. */
  tell(payload: string): Promise<unknown>;
}

/** How often a waiter looks while the database cannot wake it. */
const BLIND_LOOK_MS = 100;
/** The same while it can: for what only a person with a console could have changed unheard. */
const IDLE_LOOK_MS = 2_000;
/** The same for those who are not next: somebody before them looks, and their renewals tell them. */
const FAR_LOOK_MS = 30_000;
const OPEN_LIMIT_MS = 5_000;
const PROOF_LIMIT_MS = 1_000;
const BEAT_EVERY_MS = 1_000;
/** The same while all who wait are far from their turn. */
const FAR_BEAT_EVERY_MS = 30_000;
const BEAT_LIMIT_MS = 2_000;
/** A connection that nobody needs is kept for the next waiter this long. */
const LINGER_MS = 30_000;
const REOPEN_BACKOFF = { baseMs: 50, capMs: 5_000 };
/** When notifications do not arrive although they are sent, as behind a pooler, trying again soon is no use. */
const UNPROVED_BACKOFF = { baseMs: 1_000, capMs: 60_000 };

export class Waker {
  readonly #parts: WakerParts;
  readonly #subscriptions = new Set<Subscription>();
  #ear: Ear | undefined;
  #state: "off" | "opening" | "deaf" | "hearing" = "off";
  #timer: Timer | undefined;
  #lastNeededAt = 0;
  #failures = 0;
  /** Counts the connections, so that what an older one still reports is not taken for news of the present one. */
  #round = 0;
  #proof: { readonly payload: string; arrived(): void } | undefined;
  #closed = false;

  constructor(parts: WakerParts) {
    this.#parts = parts;
  }

  /** How long a waiter may sleep at most before it looks by itself. */
  lookMs({ isFar }: Subscription): number {
    if (this.#state !== "hearing") return BLIND_LOOK_MS;
    return isFar ? FAR_LOOK_MS : IDLE_LOOK_MS;
  }

  /**
   * `resource` undefined: woken by every change. `attempt`: not by those that name others. From the state "hearing" on,
   * nothing is missed.
   */
  subscribe(resource?: string, attempt?: string): Subscription {
    const subscription: Subscription = new Subscription(
      this.#parts.clock,
      { resource, attempt },
      () => {
        this.#subscriptions.delete(subscription);
        this.#lastNeededAt = this.#parts.clock.now();
      },
    );
    this.#subscriptions.add(subscription);
    if (this.#state === "off") void this.#open();
    return subscription;
  }

  /** Wakes who waits for this. */
  ring(resource: string): void {
    for (const subscription of [...this.#subscriptions])
      if ((subscription.resource ?? resource) === resource) subscription.notify();
  }

  close(): void {
    this.#closed = true;
    this.#shut("off");
    for (const subscription of [...this.#subscriptions]) subscription.notify();
  }

  async #open(): Promise<void> {
    const { link, channel, listens, clock, random } = this.#parts;
    if (!listens || link.listen === undefined || this.#closed) return;
    this.#state = "opening";
    this.#round += 1;
    const round = this.#round;
    let backoff = REOPEN_BACKOFF;
    const hearing = {
      heard: (payload: string) => this.#heard(payload),
      broke: () => this.#broke(round),
    };
    try {
      const opening = link.listen(channel, hearing);
      const ear = await this.#inTime(opening, OPEN_LIMIT_MS).catch((error: unknown) => {
        // It may yet open, after we have stopped waiting for it.
        opening.then((late) => late.close()).catch(() => undefined);
        throw error;
      });
      if (this.#closed || round !== this.#round) return ear.close();
      this.#ear = ear;
      const proof = `p${random.id()}`;
      const arrival = new Promise<void>((arrived) => {
        this.#proof = { payload: proof, arrived };
      });
      await this.#parts.tell(proof);
      backoff = UNPROVED_BACKOFF;
      await this.#inTime(arrival, PROOF_LIMIT_MS);
    } catch {
      this.#broke(round, backoff);
      return;
    }
    if (round !== this.#round || this.#ear === undefined) return;
    this.#failures = 0;
    this.#state = "hearing";
    this.#lastNeededAt = clock.now();
    // What was told before we heard is looked for now.
    this.#wakeAll();
    this.#beatLater();
  }

  #beatLater(): void {
    const areFar = [...this.#subscriptions].every(({ isFar }) => isFar);
    const everyMs = areFar ? FAR_BEAT_EVERY_MS : BEAT_EVERY_MS;
    this.#timer = this.#parts.clock.setTimer(() => void this.#beat(), everyMs);
  }

  async #beat(): Promise<void> {
    const ear = this.#ear;
    const round = this.#round;
    if (ear === undefined) return;
    const isNeeded = this.#subscriptions.size > 0;
    if (!isNeeded && this.#parts.clock.now() > this.#lastNeededAt + LINGER_MS)
      return this.#shut("off");
    try {
      await this.#inTime(ear.ping(), BEAT_LIMIT_MS);
    } catch {
      this.#broke(round);
      return;
    }
    if (this.#ear === ear) this.#beatLater();
  }

  #heard(payload: string): void {
    const notice = parseNotice(payload);
    if (notice.kind === "changed") this.ring(notice.resource);
    if (notice.kind === "turn") this.#tellTurn(notice.resource, notice.queue);
    if (notice.kind === "unknown") this.#wakeAll();
    if (payload === this.#proof?.payload) this.#proof.arrived();
  }

  /** The first in the queue looks now, those behind it when its head start is over, all others not at all. */
  #tellTurn(resource: string, queue: readonly string[]): void {
    for (const subscription of [...this.#subscriptions]) {
      if ((subscription.resource ?? resource) !== resource) continue;
      const { attempt } = subscription;
      const place = attempt === undefined ? 0 : queue.indexOf(attempt);
      if (place === 0) subscription.notify();
      // Nobody waits for this timer: who waits looks by the clock as well.
      if (place > 0) this.#parts.clock.setTimer(subscription.notify, HEAD_START_MS + 1);
    }
  }

  /** Waiters go on by the clock, and the connection is opened again, if somebody still waits then. */
  #broke(round: number, backoff: Backoff = REOPEN_BACKOFF): void {
    if (this.#closed || round !== this.#round || this.#state === "deaf") return;
    this.#shut("deaf");
    this.#failures += 1;
    const { clock, random } = this.#parts;
    const delayMs = backoffMs(backoff, this.#failures, random.next());
    this.#timer = clock.setTimer(() => {
      this.#state = "off";
      if (this.#subscriptions.size > 0) void this.#open();
    }, delayMs);
    this.#wakeAll();
  }

  #shut(state: "off" | "deaf"): void {
    this.#timer?.cancel();
    this.#ear?.close();
    this.#ear = undefined;
    this.#proof = undefined;
    this.#state = state;
  }

  #wakeAll(): void {
    for (const subscription of [...this.#subscriptions]) subscription.notify();
  }

  #inTime<T>(work: Promise<T>, limitMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = (): void => reject(new Error(`Nothing came within ${limitMs} ms.`));
      const timer = this.#parts.clock.setTimer(late, limitMs);
      work.then(resolve, reject).finally(() => timer.cancel());
    });
  }
}

/** One waiter's view of the changes: rings for each of them. Reset before a look, it misses none. */
export class Subscription extends Wakeup {
  readonly resource: string | undefined;
  readonly attempt: string | undefined;
  /** Others are before it, who look out for it too. */
  isFar = false;
  readonly #leave: () => void;

  constructor(
    clock: Clock,
    { resource, attempt }: Pick<Subscription, "resource" | "attempt">,
    leave: () => void,
  ) {
    super(clock);
    this.resource = resource;
    this.attempt = attempt;
    this.#leave = leave;
  }

  close(): void {
    this.#leave();
  }
}
