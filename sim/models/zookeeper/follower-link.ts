// The connection of a follower to its leader: entries and pings in one direction, requests and
// activity reports in the other. It ends when either end changes its role.

import type { Asked } from "./connection.ts";
import type { Member } from "./member.ts";
import type { Entry } from "./tree.ts";

export class FollowerLink {
  readonly leader: Member;
  readonly follower: Member;
  /** When the leader's last message arrived, by the follower's clock. */
  receivedAt: number;
  /** When the follower's last message arrived, by the leader's clock. */
  answeredAt: number;
  /** Sessions that were active since the last report, with their timeouts. */
  readonly active: Map<number, number> = new Map();
  readonly #down: (arrive: () => void) => void;
  readonly #up: (arrive: () => void) => void;
  #isOpen = true;

  constructor(leader: Member, follower: Member) {
    this.leader = leader;
    this.follower = follower;
    this.receivedAt = follower.program.clock.now();
    this.answeredAt = leader.program.clock.now();
    const { network } = leader.ensemble;
    this.#down = network.openStream(leader.program, follower.program);
    this.#up = network.openStream(follower.program, leader.program);
  }

  pass(entry: Entry): void {
    this.#toFollower(() => this.follower.apply(entry));
  }

  ping(): void {
    this.#toFollower(() => {
      const active = [...this.active];
      this.active.clear();
      this.#toLeader(() => {
        for (const [id, timeoutMs] of active) this.leader.decisions.touchSession(id, timeoutMs);
      });
    });
  }

  /** Forwards a request that only the leader can decide. */
  forward(asked: Asked): void {
    this.#toLeader(() => this.leader.decisions.decide(asked, this));
  }

  /** Arrives after every entry that was passed on before. */
  answer(settle: () => void): void {
    this.#toFollower(settle);
  }

  /** The follower leaves. */
  end(): void {
    this.#isOpen = false;
    this.leader.followers.delete(this);
  }

  /** The leader leaves, or drops this follower. */
  drop(): void {
    this.leader.followers.delete(this);
    this.#toFollower(() => this.follower.seekLeader());
  }

  #toFollower(arrive: () => void): void {
    this.#down(() => {
      if (!this.#isOpen) return;
      this.receivedAt = this.follower.program.clock.now();
      arrive();
    });
  }

  #toLeader(arrive: () => void): void {
    this.#up(() => {
      if (!this.#isOpen || !this.leader.followers.has(this)) return;
      this.answeredAt = this.leader.program.clock.now();
      arrive();
    });
  }
}
