// Waiting for one's turn. Each waiter watches the place before its own, so that a release wakes one of them, however many
// there are. The second in line also watches the first: if that does not take its turn within the head start, it is passed
// over. Those behind look from time to time, for the case that everyone before them is stuck.

import type { Clock } from "../../async/clock.ts";
import { orAborted } from "../../async/signals.ts";
import type { Call } from "../../clients/zookeeper/call.ts";
import { refusalOf } from "../../clients/zookeeper/failures.ts";
import {
  check,
  ERROR,
  exists,
  getChildren2,
  multi,
  readMulti,
  readStat,
  remove,
} from "../../clients/zookeeper/messages.ts";
import { deleted, expectOk, placesIn } from "../../clients/zookeeper/nodes.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { type AttemptRequest, HEAD_START_MS } from "../contract.ts";
import { Wakeup } from "../shared/wakeup.ts";
import type { Bells } from "./bells.ts";
import type { LeaseSession } from "./lease-session.ts";
import { UNMARKED, WAITING } from "./place.ts";

/** A connection can die without a sound: this often is looked even if nothing was heard. */
const LOOK_MAX_MS = 5_000;
/** The same for those further behind: what they watch is told, and their renewals find a dead connection. */
const FAR_LOOK_MS = 30_000;

/**
 * After a look that failed, likely because the connection broke: so long, twice as long, and again, the next is likely there. To ask
 * for the grant instead would be a write, or two, of every waiter, at each time that a connection breaks and is back at once.
 */
const LOOK_AGAIN_MS = 25;
const FAILURES_MAX = 3;

export interface Wait {
  readonly session: LeaseSession;
  readonly clock: Clock;
  readonly parent: string;
  readonly request: AttemptRequest;
  readonly signal: AbortSignal;
}

export async function untilTurn(wait: Wait): Promise<void> {
  const { session, signal, request } = wait;
  const alarm = new Alarm(wait.clock, session.bells);
  const patience: Patience = { name: undefined, since: 0 };
  let failures = 0;
  try {
    for (;;) {
      signal.throwIfAborted();
      alarm.reset();
      let waitMs: number;
      try {
        const look = session.within(request.limitMs, (call) =>
          lookOnce(wait, call, alarm, patience),
        );
        waitMs = await orAborted(look, signal);
        failures = 0;
      } catch (error) {
        signal.throwIfAborted();
        failures += 1;
        // Asking for the grant will fail too, and its caller knows when to try again.
        if (!(error instanceof StoreUnavailableError) || failures > FAILURES_MAX) return;
        waitMs = LOOK_AGAIN_MS * 2 ** (failures - 1);
        alarm.reset();
      }
      if (waitMs <= 0) return;
      await alarm.next(waitMs, signal);
    }
  } finally {
    alarm.reset();
  }
}

/** Who is first without having taken, and since when this waiter has seen that. */
interface Patience {
  name: string | undefined;
  since: number;
}

/** In how many milliseconds to look again; 0: now is the time to ask. The reads that decide are those that watch. */
async function lookOnce(wait: Wait, call: Call, alarm: Alarm, patience: Patience): Promise<number> {
  const { session, parent, request, clock } = wait;
  const place = session.placeOf(request.attempt);
  const own = place?.path;
  for (;;) {
    call.throwIfOver();
    const listing = await call.send(getChildren2(parent));
    if (listing.error === ERROR.noNode) return 0;
    expectOk(listing, call);
    const places = placesIn(listing);
    place?.see(places);
    const index = places.findIndex(({ name }) => `${parent}/${name}` === own);
    // Without a place of its own (nobody asked for one), it waits behind the first.
    const before = own === undefined ? places.slice(0, 1) : places.slice(0, Math.max(index, 0));
    const [first, last] = [before[0], before.at(-1)];
    if (first === undefined || last === undefined) return 0;
    const watchesFirst = before.length <= 2;
    const paths = [`${parent}/${first.name}`, `${parent}/${last.name}`] as const;
    if (watchesFirst) alarm.hang(paths[0]);
    if (first !== last) alarm.hang(paths[1]);
    const [head, previous] = await Promise.all([
      call.send(exists(paths[0], watchesFirst)),
      first === last ? undefined : call.send(exists(paths[1], true)),
    ]);
    if (head.error === ERROR.noNode || previous?.error === ERROR.noNode) continue;
    expectOk(head, call);
    if (previous !== undefined) expectOk(previous, call);
    const { version } = readStat(head.body);
    const isUnmarked = version === UNMARKED && own !== undefined && place?.wasNotAlone(first);
    if (version !== WAITING && isUnmarked !== true) {
      patience.name = undefined;
      return watchesFirst ? LOOK_MAX_MS : FAR_LOOK_MS;
    }
    const now = clock.now();
    if (patience.name !== first.name) Object.assign(patience, { name: first.name, since: now });
    const leftMs = patience.since + HEAD_START_MS - now;
    if (leftMs > 0) return leftMs;
    // On the condition that it still only waits: then it cannot have taken, and never will.
    if (isUnmarked !== true) await deleted(call, remove(paths[0], WAITING));
    else if (!(await deletedUnmarked(call, paths[0], own as string))) return HEAD_START_MS;
  }
}

/**
 * Its owner has not come to say that it waits, and may be gone. What is known of it holds as long as the place stands that was
 * there when it was seen: otherwise the parent may be another, and the name another's, who was alone.
 */
async function deletedUnmarked(call: Call, path: string, own: string): Promise<boolean> {
  const reply = await call.send(multi([check(own, WAITING), remove(path, UNMARKED)]));
  const error = reply.error === 0 ? readMulti(reply.body).error : reply.error;
  if (error === ERROR.noNode || error === ERROR.badVersion) return false;
  if (error !== 0) throw refusalOf(error, call.place);
  return true;
}

/** The bells that this wait has hung, all ringing one. */
class Alarm {
  readonly #bells: Bells;
  readonly #wakeup: Wakeup;
  #hung: (() => void)[] = [];

  constructor(clock: Clock, bells: Bells) {
    this.#bells = bells;
    this.#wakeup = new Wakeup(clock);
  }

  hang(path: string): void {
    this.#hung.push(this.#bells.hang(path, this.#wakeup.notify));
  }

  reset(): void {
    for (const takeAway of this.#hung.splice(0)) takeAway();
    this.#wakeup.reset();
  }

  next(waitMs: number, signal: AbortSignal): Promise<void> {
    return this.#wakeup.wait(waitMs, signal);
  }
}
