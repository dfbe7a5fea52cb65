// What a leader decides, for its own clients and for those of its followers: which server owns a
// session, and which changes are committed. A leader that was replaced without knowing it still
// decides, but its decisions are not committed.

import { ERROR } from "../../../src/clients/zookeeper/messages.ts";
import type { Asked } from "./connection.ts";
import type { Agreed } from "./ensemble.ts";
import type { FollowerLink } from "./follower-link.ts";
import type { Member } from "./member.ts";
import { prepare } from "./prepare.ts";
import type { Op } from "./requests.ts";
import type { Session } from "./sessions.ts";

export class LeaderDecisions {
  readonly #member: Member;

  constructor(member: Member) {
    this.#member = member;
  }

  /** `from` is the follower that has the connection, unless it is the leader's own. */
  decide(asked: Asked, from: FollowerLink | undefined): void {
    const { request } = asked;
    switch (request.kind) {
      case "open":
        this.#open(asked, from);
        return;
      case "reopen":
        this.#reopen(asked, request.session, from);
        return;
      case "sync":
        from?.answer(() => from.follower.handler.synced(asked));
        return;
      case "close":
        this.#close(asked);
        return;
      case "write":
        this.#write(asked, request.ops, from);
        return;
      default:
        throw new Error("Every server answers reads itself.");
    }
  }

  /**
   * A follower reports that a session was active. This resets the session's clock; a request that a
   * follower forwards does not.
   */
  touchSession(id: number, timeoutMs: number): Session | undefined {
    const { sessions, ensemble, program } = this.#member;
    const session = sessions.touch(id, timeoutMs);
    if (session !== undefined && ensemble.isLed(this.#member))
      ensemble.witness.kept(session, program.clocks);
    return session;
  }

  #open(asked: Asked, from: FollowerLink | undefined): void {
    const { timeoutMs } = asked.connection;
    const opened = { session: this.#member.newSession(), timeoutMs };
    const { sessions, ensemble } = this.#member;
    // Without a majority no session is opened. The request waits until its connection ends.
    if (!ensemble.isLed(this.#member)) return;
    sessions.start(opened.session, timeoutMs, from?.follower ?? this.#member);
    ensemble.commit(this.#member, { changes: [], opened, asked });
  }

  /** The leader alone decides whether a session lives, without asking a majority. */
  #reopen(asked: Asked, id: number, from: FollowerLink | undefined): void {
    const session = this.touchSession(id, asked.connection.timeoutMs);
    if (session !== undefined) session.owner = from?.follower ?? this.#member;
    const isValid = session !== undefined;
    if (from === undefined) this.#member.handler.reopened(asked, id, isValid);
    else from.answer(() => from.follower.handler.reopened(asked, id, isValid));
  }

  #close(asked: Asked): void {
    const { session } = asked.connection;
    const paths = this.#member.tree.ownedBy(session);
    const changes = paths.map((path) => ({ kind: "delete", path }) as const);
    this.#commit({ changes, closed: { session, isExpired: false }, asked });
  }

  #write(asked: Asked, ops: readonly Op[], from: FollowerLink | undefined): void {
    const { ensemble, sessions, tree, program } = this.#member;
    const { session: id } = asked.connection;
    const session = sessions.get(id);
    const owner = from?.follower ?? this.#member;
    // After a change of leader the first server that sends a request owns the session.
    if (session !== undefined) session.owner ??= owner;
    if (session?.owner !== owner) {
      const error = session === undefined ? ERROR.sessionExpired : ERROR.sessionMoved;
      this.#commit({ changes: [], refused: { error, at: -1 }, asked });
      return;
    }
    const isRenewal = ops[0] !== undefined && ensemble.witness.isRenewal(ops[0].path);
    if (isRenewal && from === undefined && ensemble.isLed(this.#member))
      ensemble.witness.kept(session, program.clocks);
    this.#commit({ ...prepare(tree, id, ops), asked });
  }

  #commit(entry: Agreed): void {
    const { ensemble } = this.#member;
    if (ensemble.isLed(this.#member)) ensemble.commit(this.#member, entry);
  }
}
