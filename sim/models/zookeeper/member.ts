// One server: its data, its role and its timers. A leader ends expired sessions and pings its
// followers. A follower reports active sessions in return, and seeks a new leader when it hears
// nothing. A server that changes its role closes all its connections.

import type { Program } from "../../world/program.ts";
import type { Connection, Listener } from "./connection.ts";
import { type Ensemble, SYNC_LIMIT_MS, TICK_MS } from "./ensemble.ts";
import { FollowerLink } from "./follower-link.ts";
import { LeaderDecisions } from "./leader-decisions.ts";
import { RequestHandler } from "./request-handler.ts";
import { type Session, Sessions } from "./sessions.ts";
import { type Entry, Tree } from "./tree.ts";

/** The duration of an election, and of joining a leader. */
const ELECTION_MS = [10, 90] as const;
/**
 * In heartbeats. The default of a real server is a minute, but a run is shorter and should contain
 * removals.
 */
const CONTAINERS_EVERY = 20;
const SESSION_BASE = 2 ** 48;

export class Member implements Listener {
  readonly program: Program;
  readonly ensemble: Ensemble;
  readonly tree: Tree;
  readonly handler: RequestHandler;
  readonly decisions: LeaderDecisions;
  role: "leading" | "following" | "looking" = "looking";
  sessions: Sessions;
  /** When it last sent a heartbeat as leader, in true time. */
  lastBeatAt = 0;
  link: FollowerLink | undefined;
  /** The links to its followers. */
  readonly followers: Set<FollowerLink> = new Set();
  readonly #index: number;
  #isDown = false;
  #applied = 0;
  #opened = 0;
  #beats = 0;
  /** Counts role changes. Timers of an earlier role do nothing. */
  #roles = 0;

  constructor(program: Program, ensemble: Ensemble, index: number, isAlone: boolean) {
    this.program = program;
    this.ensemble = ensemble;
    this.#index = index;
    this.tree = new Tree(isAlone);
    this.sessions = this.#newSessions();
    this.handler = new RequestHandler(this);
    this.decisions = new LeaderDecisions(this);
    ensemble.members.push(this);
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /**
   * Kills or revives the server. Killing it resets its connections and ends its role. Its data
   * survives on disk.
   */
  set isDown(isDown: boolean) {
    this.#isDown = isDown;
    if (isDown) this.#leaveRole();
  }

  /** Two outages can overlap, and only the first return starts the server. */
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
    else this.handler.accept(connection);
  }

  receive(connection: Connection, bytes: Buffer): void {
    this.handler.receive(connection, bytes);
  }

  disconnected(connection: Connection): void {
    this.handler.disconnected(connection);
  }

  /** Applies the next entry, and passes it on to the followers. */
  apply(entry: Entry): void {
    this.#applied += 1;
    const stats = this.tree.apply(entry);
    if (this.ensemble.isLed(this)) {
      if (entry.closed !== undefined) this.sessions.forget(entry.closed.session);
      this.ensemble.witness.after(entry, this.tree, this.sessions, this.program.clocks);
      for (const follower of this.followers) follower.pass(entry);
    }
    this.handler.applied(entry, stats);
  }

  /** Looks for a leader to follow, or becomes one. */
  seekLeader(): void {
    this.#leaveRole();
    this.#later(this.program.chance.between(...ELECTION_MS), () => this.#settle());
  }

  #settle(): void {
    const leader = this.ensemble.leaderFor(this);
    this.#roles += 1;
    this.catchUp();
    if (leader === undefined) this.#lead();
    else this.#follow(leader);
  }

  /** Applies everything that was committed in the meantime. */
  catchUp(): void {
    const { log } = this.ensemble;
    while (this.#applied < log.length) this.apply(log[this.#applied] as Entry);
  }

  /**
   * Becomes leader. A new leader does not know which sessions were active, so each one starts its
   * full timeout again.
   */
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
    this.link = new FollowerLink(leader, this);
    leader.followers.add(this.link);
    this.#watchLeader();
  }

  #watchLeader(): void {
    this.#later(TICK_MS, () => {
      const silentMs = this.program.clock.now() - (this.link?.receivedAt ?? 0);
      if (silentMs > SYNC_LIMIT_MS) this.seekLeader();
      else this.#watchLeader();
    });
  }

  /**
   * The leader's heartbeat, every half tick as in the real server. `deposed` counts the beats since
   * it found that it no longer leads.
   */
  #beat(deposed: number): void {
    const { ensemble, program } = this;
    if (!ensemble.isLed(this)) {
      // A leader checks this only at every other beat, so for up to a tick it answers as if nothing
      // had happened.
      if (deposed > 0) this.seekLeader();
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

  /** Ends an expired session. */
  end(session: Session): void {
    const paths = this.tree.ownedBy(session.id);
    const changes = paths.map((path) => ({ kind: "delete", path }) as const);
    this.ensemble.witness.expired(session, this.program.clocks);
    this.ensemble.commit(this, { changes, closed: { session: session.id, isExpired: true } });
  }

  /** Removes containers that once had children and are empty now. */
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
    this.handler.closeAll();
    this.link?.end();
    this.link = undefined;
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
