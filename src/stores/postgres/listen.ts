// The connection on which this process receives notifications. It is opened when it is needed,
// tested with a notification of our own (behind a pooler in transaction mode none arrives), checked
// by a heartbeat, and opened again after it breaks. Notifications are an optimisation, so nothing
// here fails: without a connection, wait.ts polls and renewals report everything.

import type { Clock, Random, Timer } from "../../async/clock.ts";
import type { Listening, PgLink } from "../../clients/postgres/link.ts";
import { type Backoff, backoffMs } from "../../core/backoff.ts";

export interface ListenParts {
  readonly link: Pick<PgLink, "listen">;
  readonly clock: Clock;
  readonly random: Random;
  /** The channel of this process. */
  readonly channel: string;
  /** Sends a notification to the channel through another connection. */
  notify(payload: string): Promise<unknown>;
  onNotification(payload: string): void;
  /** Notifications arrive from now on, or no longer. */
  onChange(): void;
}

const OPEN_LIMIT_MS = 5_000;
const TEST_LIMIT_MS = 1_000;
/** Rare, because renewals report what a silent connection misses. */
const BEAT_EVERY_MS = 30_000;
const BEAT_LIMIT_MS = 1_000;
/** A connection that is not needed is kept for this long. */
const LINGER_MS = 30_000;
const REOPEN_BACKOFF: Backoff = { baseMs: 50, capMs: 5_000 };
/** If notifications are sent and do not arrive, as with a pooler, an early retry would not help. */
const UNTESTED_BACKOFF: Backoff = { baseMs: 1_000, capMs: 60_000 };

export class Listener {
  readonly #parts: ListenParts;
  #connection: Listening | undefined;
  #state: "closed" | "opening" | "listening" | "broken" | "ended" = "closed";
  #timer: Timer | undefined;
  #neededUntil = 0;
  #failures = 0;
  /** Counts the connections, so that a late event of an earlier one is ignored. */
  #round = 0;
  #test: { readonly payload: string; arrived(): void } | undefined;

  constructor(parts: ListenParts) {
    this.#parts = parts;
  }

  get isListening(): boolean {
    return this.#state === "listening";
  }

  /** Opens the connection, or keeps it open. */
  need(): void {
    this.#neededUntil = this.#parts.clock.now() + LINGER_MS;
    if (this.#state === "closed") void this.#open();
  }

  /** Checks now whether the connection still works. */
  check(): void {
    if (this.#state !== "listening") return;
    this.#timer?.cancel();
    void this.#beat();
  }

  close(): void {
    this.#shut("ended");
  }

  async #open(): Promise<void> {
    const { link, channel, random } = this.#parts;
    if (link.listen === undefined) return;
    this.#state = "opening";
    this.#round += 1;
    const round = this.#round;
    let backoff = REOPEN_BACKOFF;
    try {
      const opening = link.listen(channel, {
        onNotification: (payload) => this.#received(payload, round),
        onBroken: () => this.#broke(round),
      });
      // It may open after we have stopped waiting for it.
      void opening.then((late) => this.#round !== round && late.close()).catch(() => undefined);
      const connection = await this.#inTime(opening, OPEN_LIMIT_MS);
      if (this.#round !== round) return;
      this.#connection = connection;
      const payload = `test ${random.id()}`;
      const arrival = new Promise<void>((arrived) => {
        this.#test = { payload, arrived };
      });
      await this.#parts.notify(payload);
      backoff = UNTESTED_BACKOFF;
      await this.#inTime(arrival, TEST_LIMIT_MS);
    } catch {
      this.#broke(round, backoff);
      return;
    }
    if (this.#round !== round) return;
    this.#failures = 0;
    this.#state = "listening";
    this.#beatLater();
    this.#parts.onChange();
  }

  #received(payload: string, round: number): void {
    if (round !== this.#round) return;
    if (payload === this.#test?.payload) this.#test.arrived();
    else this.#parts.onNotification(payload);
  }

  #beatLater(): void {
    this.#timer = this.#parts.clock.setTimer(() => void this.#beat(), BEAT_EVERY_MS);
  }

  async #beat(): Promise<void> {
    const round = this.#round;
    if (this.#parts.clock.now() > this.#neededUntil) {
      this.#shut("closed");
      return;
    }
    try {
      await this.#inTime(this.#connection?.ping() ?? Promise.resolve(), BEAT_LIMIT_MS);
    } catch {
      this.#broke(round);
      return;
    }
    if (round === this.#round) this.#beatLater();
  }

  #broke(round: number, backoff: Backoff = REOPEN_BACKOFF): void {
    if (round !== this.#round) return;
    this.#shut("broken");
    this.#failures += 1;
    const { clock, random } = this.#parts;
    const reopen = (): void => {
      this.#state = "closed";
      if (clock.now() <= this.#neededUntil) void this.#open();
    };
    this.#timer = clock.setTimer(reopen, backoffMs(backoff, this.#failures, random.next()));
    this.#parts.onChange();
  }

  #shut(state: "closed" | "broken" | "ended"): void {
    this.#round += 1;
    this.#timer?.cancel();
    this.#connection?.close();
    this.#connection = undefined;
    this.#test = undefined;
    this.#state = state;
  }

  #inTime<T>(work: Promise<T>, limitMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = (): void => reject(new Error(`Nothing arrived within ${limitMs} ms.`));
      const timer = this.#parts.clock.setTimer(late, limitMs);
      work.then(resolve, reject).finally(() => timer.cancel());
    });
  }
}
