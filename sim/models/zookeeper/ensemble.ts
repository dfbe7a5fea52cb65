// What the servers of an ensemble agree on: who leads, and the one sequence of entries. With two servers that clients see
// there is a third that only votes, and that is always there: so a leader that runs has a majority, and so has whoever
// takes its place.

import type { Network } from "../../world/network.ts";
import type { Schedule } from "../../world/schedule.ts";
import type { Member } from "./member.ts";
import type { Entry } from "./tree.ts";
import type { Witness } from "./witness.ts";

export const TICK_MS: number = 300;
/** Without a word for so long, leader and followers give each other up. */
export const SYNC_LIMIT_MS: number = 2 * TICK_MS;
const EPOCH = 0x1_0000_0000;

/** What a leader has decided; its number and time come with the agreement. */
export type Agreed = Omit<Entry, "zxid" | "atMs">;

export class Ensemble {
  readonly schedule: Schedule;
  readonly network: Network;
  readonly witness: Witness;
  readonly members: Member[] = [];
  /** Everything that was agreed on, from the beginning. */
  readonly log: Entry[] = [];
  #leader: Member | undefined;
  #epoch = 0;
  #counter = 0;

  constructor(schedule: Schedule, network: Network, witness: Witness) {
    this.schedule = schedule;
    this.network = network;
    this.witness = witness;
  }

  /** Whether a majority follows this one. A leader that was replaced does not know for a while that it was. */
  isLed(by: Member): boolean {
    return this.#leader === by;
  }

  /** Whom to follow; undefined when nobody leads, or nobody has heard of the leader for long. */
  leaderFor(member: Member): Member | undefined {
    const leader = this.#leader;
    if (leader === undefined || leader === member || leader.isDown) return undefined;
    const silentMs = this.schedule.now - leader.lastBeatAt;
    return silentMs <= SYNC_LIMIT_MS ? leader : undefined;
  }

  elect(member: Member): void {
    this.#leader = member;
    this.#epoch += 1;
    this.#counter = 0;
  }

  /** By the leader only. */
  commit(leader: Member, { changes, opened, closed, refused, asked }: Agreed): void {
    this.#counter += 1;
    const zxid = this.#epoch * EPOCH + this.#counter;
    const atMs = leader.program.clocks.wallNow();
    const entry: Entry = { zxid, atMs, changes, opened, closed, refused, asked };
    this.log.push(entry);
    this.witness.before(entry, leader.tree);
    leader.apply(entry);
  }
}
