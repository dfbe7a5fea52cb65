// The connection of a follower to its leader: entries and pings one way, requests and reports the other. It ends when
// either end changes its role.

import type { Asked } from "./connection.ts";
import type { Member } from "./member.ts";
import type { Entry } from "./tree.ts";

export class Following {
  readonly leader: Member;
  readonly follower: Member;
  /** When something last came from the leader, by the follower's clock. */
  heardAt: number;
  /** When something last came from the follower, by the leader's. */
  answeredAt: number;
  /** Sessions that were there since the last report, with their timeouts. */
  readonly present: Map<number, number> = new Map();
  readonly #down: (arrive: () => void) => void;
  readonly #up: (arrive: () => void) => void;
  #isOpen = true;

  constructor(leader: Member, follower: Member) {
    this.leader = leader;
    this.follower = follower;
    this.heardAt = follower.program.clock.now();
    this.answeredAt = leader.program.clock.now();
    const { network } = leader.ensemble;
    this.#down = network.openStream(leader.program, follower.program);
    this.#up = network.openStream(follower.program, leader.program);
  }

  pass(entry: Entry): void {
    this.#tell(() => this.follower.apply(entry));
  }

  ping(): void {
    this.#tell(() => {
      const present = [...this.present];
      this.present.clear();
      this.#ask(() => {
        for (const [id, timeoutMs] of present) this.leader.deciding.heardOf(id, timeoutMs);
      });
    });
  }

  /** A request that only the leader can decide. */
  forward(asked: Asked): void {
    this.#ask(() => this.leader.deciding.decide(asked, this));
  }

  /** Behind every entry that was passed on before. */
  answer(settle: () => void): void {
    this.#tell(settle);
  }

  /** The follower goes. */
  end(): void {
    this.#isOpen = false;
    this.leader.followers.delete(this);
  }

  /** The leader goes, or gives this one up. */
  drop(): void {
    this.leader.followers.delete(this);
    this.#tell(() => this.follower.look());
  }

  #tell(arrive: () => void): void {
    this.#down(() => {
      if (!this.#isOpen) return;
      this.heardAt = this.follower.program.clock.now();
      arrive();
    });
  }

  #ask(arrive: () => void): void {
    this.#up(() => {
      if (!this.#isOpen || !this.leader.followers.has(this)) return;
      this.answeredAt = this.leader.program.clock.now();
      arrive();
    });
  }
}
