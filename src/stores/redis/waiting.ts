// Waiting until it is worthwhile to ask for a grant. Subscribed first, looked then, so that no message falls between. A
// message says enough to go on without asking: whose turn it is, or for how long the new holder may stay. Only when time
// runs out is the server asked, so a hundred waiters cause no herd of requests.

import type { Clock } from "../../core/clock.ts";
import { orAborted } from "../../core/signals.ts";
import { HEAD_START_MS } from "../store.ts";
import { type Channels, Mailbox } from "./channels.ts";

export interface Wait {
  readonly channel: string;
  readonly attempt: string;
  readonly signal: AbortSignal;
  /** In how many milliseconds to look again; 0: now is the time to ask. */
  look(): Promise<number>;
}

/** A connection can die without a sound: this often is looked even if nothing was heard. */
const LOOK_MAX_MS = 5_000;
/** The same while nobody has confirmed that we listen: the answer may be late, or never come. */
const UNHEARD_LOOK_MS = 1_000;

export async function untilFree(channels: Channels, clock: Clock, wait: Wait): Promise<void> {
  const { attempt, signal } = wait;
  const mailbox = new Mailbox(clock);
  const listening = channels.listen(wait.channel, mailbox.put);
  let isListening = false;
  try {
    isListening = await orAborted(inTime(listening, clock), signal);
    // What was said before is missed, so it is time to look.
    if (!isListening)
      listening.then(
        () => {
          isListening = true;
          mailbox.put(undefined);
        },
        () => undefined,
      );
    for (;;) {
      signal.throwIfAborted();
      let waitMs: number;
      try {
        waitMs = await orAborted(wait.look(), signal);
      } catch {
        signal.throwIfAborted();
        // Asking for the grant will fail too, and its caller knows when to try again.
        return;
      }
      for (;;) {
        if (waitMs <= 0) return;
        const lookMs = isListening ? LOOK_MAX_MS : UNHEARD_LOOK_MS;
        const message = await mailbox.next(Math.min(waitMs, lookMs), signal);
        if (message === undefined) break;
        waitMs = meaning(message, attempt);
      }
    }
  } finally {
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

/** How long to wait now, by what a message says; 0: it is this attempt's turn. */
function meaning(message: string, attempt: string): number {
  const [kind, rest] = [message.slice(0, 4), message.slice(5)];
  if (kind === "held") return Number(rest) + 2;
  return rest === "" || rest === attempt ? 0 : HEAD_START_MS + 1;
}
