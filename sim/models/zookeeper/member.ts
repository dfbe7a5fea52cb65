// One server: its data, its role, and the timers that go with it. A leader looks for sessions that are over and tells its
// followers that it is there; a follower reports in turn who was there, and looks for a leader when it hears of none.
// Whoever changes its role ends all its connections.

import type { Program } from "../../world/program.ts";
import type { Connection, Listener } from "./connection.ts";
import { Deciding } from "./deciding.ts";
import { Desk } from "./desk.ts";
import { type Ensemble, SYNC_LIMIT_MS, TICK_MS } from "./ensemble.ts";
import { Following } from "./following.ts";
import { type Session, Sessions } from "./sessions.ts";
import { type Entry, Tree } from "./tree.ts";

/** An election takes about this long, and so does joining a leader. */
const LOOKING_MS = [10, 90] as const;
/** The default is a minute; a day is shorter, and parents are to vanish in it. */
const CONTAINERS_EVERY = 20;
const SESSION_BASE = 2 ** 48;

export class Member implements Listener {
  readonly program: Program;
  readonly ensemble: Ensemble;
  readonly tree: Tree;
  readonly desk: Desk;
  readonly deciding: Deciding;
  role: "leading" | "following" | "looking" = "looking";
  sessions: Sessions;
  /** When it last showed as a leader that it runs, in true time. */
  lastBeatAt = 0;
  following: Following | undefined;
  /** Those that follow this one. */
  readonly followers: Set<Following> = new Set();
  readonly #index: number;
  #isDown = false;
  #applied = 0;
  #opened = 0;
  #beats = 0;
  /** Timers of an earlier role do nothing any more. */
  #roles = 0;

  constructor(program: Program, ensemble: Ensemble, index: number, isAlone: boolean) {
    this.program = program;
    this.ensemble = ensemble;
    this.#index = index;
    this.tree = new Tree(isAlone);
    this.sessions = this.#newSessions();
    this.desk = new Desk(this);
    this.deciding = new Deciding(this);
    ensemble.members.push(this);
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** Killed: its connections are reset, and what it knew of its role is gone. The data are on its disk. */
  set isDown(isDown: boolean) {
    this.#isDown = isDown;
    if (isDown) this.#leaveRole();
  }

  /** Two outages can overlap: only the first return starts it. */
  onReturn(): void {
    if (this.role === "looking") this.#settle();
  }

  begin(): void {
    this.#settle();
  }

  newSession(): number {
    this.#opened += 1;
    return (this.#index + 1) * SESSION_BASE + this.#opened;
  }

  accept(connection: Connection): void {
    if (this.role === "looking") connection.close();
    else this.desk.accept(connection);
  }

  receive(connection: Connection, bytes: Buffer): void {
    this.desk.receive(connection, bytes);
  }

  left(connection: Connection): void {
    this.desk.left(connection);
  }

  /** Takes in the next entry, and passes it on. */
  apply(entry: Entry): void {
    this.#applied += 1;
    const stats = this.tree.apply(entry);
    if (this.ensemble.isLed(this)) {
      if (entry.closed !== undefined) this.sessions.forget(entry.closed.session);
      this.ensemble.witness.after(entry, this.tree, this.sessions, this.program.clocks);
      for (const follower of this.followers) follower.pass(entry);
    }
    this.desk.applied(entry, stats);
  }

  /** Looks for a leader, or becomes one. */
  look(): void {
    this.#leaveRole();
    this.#later(this.program.chance.between(...LOOKING_MS), () => this.#settle());
  }

  #settle(): void {
    const leader = this.ensemble.leaderFor(this);
    this.#roles += 1;
    this.catchUp();
    if (leader === undefined) this.#lead();
    else this.#follow(leader);
  }

  /** Everything that was agreed on meanwhile. */
  catchUp(): void {
    const { log } = this.ensemble;
    while (this.#applied < log.length) this.apply(log[this.#applied] as Entry);
  }

  /** A new leader knows of no one that was there: every session has its full time again. */
  #lead(): void {
    this.ensemble.elect(this);
    if (this.ensemble.log.length > 0) this.ensemble.witness.saw("a new leader");
    this.role = "leading";
    this.sessions = this.#newSessions();
    for (const [id, timeoutMs] of this.tree.sessions) this.sessions.start(id, timeoutMs, undefined);
    for (const session of this.sessions.all())
      this.ensemble.witness.kept(session, this.program.clocks);
    this.#beat(0);
  }

  #follow(leader: Member): void {
    this.role = "following";
    this.following = new Following(leader, this);
    leader.followers.add(this.following);
    this.#watchLeader();
  }

  #watchLeader(): void {
    this.#later(TICK_MS, () => {
      const silentMs = this.program.clock.now() - (this.following?.heardAt ?? 0);
      if (silentMs > SYNC_LIMIT_MS) this.look();
      else this.#watchLeader();
    });
  }

  /** Every half tick, as the real one does. `deposed`: how often it found that nobody follows it any more. */
  #beat(deposed: number): void {
    const { ensemble, program } = this;
    if (!ensemble.isLed(this)) {
      // It looks at every other beat only: for up to a tick it answers as if nothing had happened.
      if (deposed > 0) this.look();
      else this.#later(TICK_MS / 2, () => this.#beat(deposed + 1));
      return;
    }
    this.lastBeatAt = ensemble.schedule.now;
    this.#beats += 1;
    for (const session of this.sessions.due()) this.end(session);
    if (this.#beats % CONTAINERS_EVERY === 0) this.#removeContainers();
    const now = program.clock.now();
    for (const follower of this.followers) {
      if (now - follower.answeredAt > SYNC_LIMIT_MS) follower.drop();
      else follower.ping();
    }
    const intoMs = now % (TICK_MS / 2);
    this.#later(TICK_MS / 2 - intoMs, () => this.#beat(0));
  }

  /** The session has run out. */
  end(session: Session): void {
    const paths = this.tree.ownedBy(session.id);
    const changes = paths.map((path) => ({ kind: "delete", path }) as const);
    this.ensemble.witness.expired(session, this.program.clocks);
    this.ensemble.commit(this, { changes, closed: { session: session.id, isExpired: true } });
  }

  /** Those that had children and have none. */
  #removeContainers(): void {
    for (const path of [...this.tree.containers]) {
      const node = this.tree.nodes.get(path);
      if (node === undefined || node.created === 0 || node.children.size > 0) continue;
      this.ensemble.commit(this, { changes: [{ kind: "delete", path }] });
    }
  }

  #leaveRole(): void {
    this.#roles += 1;
    this.role = "looking";
    this.desk.closeAll();
    this.following?.end();
    this.following = undefined;
    for (const follower of this.followers) follower.drop();
  }

  #later(delayMs: number, act: () => void): void {
    const role = this.#roles;
    this.program.clock.setTimer(() => {
      if (this.#roles === role && !this.#isDown) act();
    }, delayMs);
  }

  #newSessions(): Sessions {
    return new Sessions(TICK_MS, () => this.program.clocks.now());
  }
}
