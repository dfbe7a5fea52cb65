// Waiting until it is worthwhile to ask for a grant. Subscribed first, looked then, so that no message falls between. A
// message says enough to go on without asking: whose turn it is, or for how long the new holder may stay. Only when time
// runs out is the server asked, so a hundred waiters cause no herd of requests. And only those whose turn is near are told
// anything, each on a channel of its own, so they cause no herd of messages either.

import type { Clock } from "../../async/clock.ts";
import { orAborted } from "../../async/signals.ts";
import { HEAD_START_MS } from "../contract.ts";
import { type Channels, Mailbox } from "./channels.ts";

export interface Wait {
  readonly channels: {
    /** Of this waiter alone. */
    readonly turn: string;
    /** Of all that happens to the resource: for who has no place in the queue. */
    readonly resource: string;
  };
  readonly attempt: string;
  readonly signal: AbortSignal;
  look(): Promise<Look>;
}

export interface Look {
  /** In how many milliseconds to look again; 0: now is the time to ask. */
  readonly waitMs: number;
  readonly isQueued: boolean;
}

/** A connection can die without a sound: this often is looked even if nothing was heard. */
const LOOK_MAX_MS = 5_000;
/** The same while nobody has confirmed that we listen: the answer may be late, or never come. */
const UNHEARD_LOOK_MS = 1_000;

export async function untilFree(channels: Channels, clock: Clock, wait: Wait): Promise<void> {
  const { attempt, signal } = wait;
  const ears = new Ears(channels, clock);
  try {
    await orAborted(ears.open(wait.channels.turn), signal);
    for (;;) {
      signal.throwIfAborted();
      let look: Look;
      try {
        look = await orAborted(wait.look(), signal);
      } catch {
        signal.throwIfAborted();
        // Asking for the grant will fail too, and its caller knows when to try again.
        return;
      }
      let { waitMs } = look;
      if (
        !look.isQueued &&
        waitMs > 0 &&
        (await orAborted(ears.open(wait.channels.resource), signal))
      )
        continue;
      for (;;) {
        if (waitMs <= 0) return;
        const lookMs = ears.areHeard ? LOOK_MAX_MS : UNHEARD_LOOK_MS;
        const message = await ears.mailbox.next(Math.min(waitMs, lookMs), signal);
        if (message === undefined) break;
        waitMs = meaning(message, attempt);
      }
    }
  } finally {
    ears.close();
  }
}

/** The channels that one waiter listens to. */
class Ears {
  readonly mailbox: Mailbox;
  readonly #channels: Channels;
  readonly #clock: Clock;
  readonly #open = new Map<string, Promise<() => void>>();

  constructor(channels: Channels, clock: Clock) {
    this.#channels = channels;
    this.#clock = clock;
    this.mailbox = new Mailbox(clock);
  }

  /** Whether all of them are confirmed. */
  get areHeard(): boolean {
    return [...this.#open.keys()].every((channel) => this.#channels.hears(channel));
  }

  /** False: it was open before. What was said on a new one before is missed, so it is time to look. */
  async open(channel: string): Promise<boolean> {
    if (this.#open.has(channel)) return false;
    const listening = this.#channels.listen(channel, this.mailbox.put);
    this.#open.set(channel, listening);
    if (!(await inTime(listening, this.#clock)))
      listening.then(
        () => this.mailbox.put(undefined),
        () => undefined,
      );
    return true;
  }

  close(): void {
    for (const listening of this.#open.values())
      listening.then(
        (leave) => leave(),
        () => undefined,
      );
  }
}

/** Whether we listen, as far as that is known soon. */
function inTime(listening: Promise<unknown>, clock: Clock): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const late = (): void => resolve(false);
    const timer = clock.setTimer(late, UNHEARD_LOOK_MS, { keepAlive: true });
    listening.then(() => resolve(true), reject).finally(() => timer.cancel());
  });
}

/** How long to wait now, by what a message says; 0: ask for the grant, also after a message that is not one of ours. */
function meaning(message: string, attempt: string): number {
  const [kind, rest] = [message.slice(0, 4), message.slice(5)];
  if (kind === "held" && /^\d{1,12}$/.test(rest)) return Number(rest) + 2;
  return kind !== "free" || rest === "" || rest === attempt ? 0 : HEAD_START_MS + 1;
}
