// What the servers of an ensemble agree on: the leader, and the one sequence of committed entries.
// Clients see two servers. A third only votes and is always running, so a leader that runs has a
// majority, and so does its successor.

import type { Network } from "../../world/network.ts";
import type { Schedule } from "../../world/schedule.ts";
import type { Member } from "./member.ts";
import type { Entry } from "./tree.ts";
import type { Witness } from "./witness.ts";

export const TICK_MS: number = 300;
/** After this long without a message, leader and followers drop each other. */
export const SYNC_LIMIT_MS: number = 2 * TICK_MS;
const EPOCH = 0x1_0000_0000;

/** An entry that a leader has decided. Its number and time are assigned at commit. */
export type Agreed = Omit<Entry, "zxid" | "atMs">;

export class Ensemble {
  readonly schedule: Schedule;
  readonly network: Network;
  readonly witness: Witness;
  readonly members: Member[] = [];
  /** Every committed entry, from the beginning. */
  readonly log: Entry[] = [];
  #leader: Member | undefined;
  #epoch = 0;
  #counter = 0;

  constructor(schedule: Schedule, network: Network, witness: Witness) {
    this.schedule = schedule;
    this.network = network;
    this.witness = witness;
  }

  /**
   * Whether a majority follows this member. A leader that was replaced does not know it for a
   * while.
   */
  isLed(by: Member): boolean {
    return this.#leader === by;
  }

  /** The leader to follow. Undefined if no member leads or the leader is silent. */
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

  /** Must be called by the leader only. */
  commit(leader: Member, { changes, opened, closed, refused, asked }: Agreed): void {
    this.#counter += 1;
    const zxid = this.#epoch * EPOCH + this.#counter;
    const atMs = leader.program.clocks.wallNow();
    const entry: Entry = { zxid, atMs, changes, opened, closed, refused, asked };
    this.log.push(entry);
    this.witness.before(entry);
    leader.apply(entry);
  }
}
