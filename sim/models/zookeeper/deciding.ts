// What a leader decides, for its own clients and for those of its followers: who has a session, and which changes are agreed
// on. A leader that was replaced and does not know it still believes that it decides; but nobody agrees with it any more.

import { ERROR } from "../../../src/clients/zookeeper/messages.ts";
import type { Asked } from "./connection.ts";
import type { Agreed } from "./ensemble.ts";
import type { Following } from "./following.ts";
import type { Member } from "./member.ts";
import { prepare } from "./prepare.ts";
import type { Op } from "./requests.ts";
import type { Session } from "./sessions.ts";

export class Deciding {
  readonly #member: Member;

  constructor(member: Member) {
    this.#member = member;
  }

  /** `from` is the follower that has the connection, where it is not the leader's own. */
  decide(asked: Asked, from: Following | undefined): void {
    const { request } = asked;
    switch (request.kind) {
      case "open":
        this.#open(asked, from);
        return;
      case "reopen":
        this.#reopen(asked, request.session, from);
        return;
      case "sync":
        from?.answer(() => from.follower.desk.synced(asked));
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

  /** Somebody was at a follower. That is what its clock starts anew for; a request that was passed on is not. */
  heardOf(id: number, timeoutMs: number): Session | undefined {
    const { sessions, ensemble, program } = this.#member;
    const session = sessions.touch(id, timeoutMs);
    if (session !== undefined && ensemble.isLed(this.#member))
      ensemble.witness.kept(session, program.clocks);
    return session;
  }

  #open(asked: Asked, from: Following | undefined): void {
    const { timeoutMs } = asked.connection;
    const opened = { session: this.#member.newSession(), timeoutMs };
    const { sessions, ensemble } = this.#member;
    // Without a majority there is no session: it waits until its connection ends.
    if (!ensemble.isLed(this.#member)) return;
    sessions.start(opened.session, timeoutMs, from?.follower ?? this.#member);
    ensemble.commit(this.#member, { changes: [], opened, asked });
  }

  /** No majority is asked: the leader alone says whether a session lives. */
  #reopen(asked: Asked, id: number, from: Following | undefined): void {
    const session = this.heardOf(id, asked.connection.timeoutMs);
    if (session !== undefined) session.owner = from?.follower ?? this.#member;
    const isValid = session !== undefined;
    if (from === undefined) this.#member.desk.reopened(asked, id, isValid);
    else from.answer(() => from.follower.desk.reopened(asked, id, isValid));
  }

  #close(asked: Asked): void {
    const { session } = asked.connection;
    const paths = this.#member.tree.ownedBy(session);
    const changes = paths.map((path) => ({ kind: "delete", path }) as const);
    this.#agree({ changes, closed: { session, isExpired: false }, asked });
  }

  #write(asked: Asked, ops: readonly Op[], from: Following | undefined): void {
    const { ensemble, sessions, tree, program } = this.#member;
    const { session: id } = asked.connection;
    const session = sessions.get(id);
    const owner = from?.follower ?? this.#member;
    // After a change of leaders the first to ask is taken for the one that has it.
    if (session !== undefined) session.owner ??= owner;
    if (session?.owner !== owner) {
      const error = session === undefined ? ERROR.sessionExpired : ERROR.sessionMoved;
      this.#agree({ changes: [], refused: { error, at: -1 }, asked });
      return;
    }
    const isRenewal = ops[0] !== undefined && ensemble.witness.isRenewal(ops[0].path);
    if (isRenewal && from === undefined && ensemble.isLed(this.#member))
      ensemble.witness.kept(session, program.clocks);
    this.#agree({ ...prepare(tree, id, ops), asked });
  }

  #agree(entry: Agreed): void {
    const { ensemble } = this.#member;
    if (ensemble.isLed(this.#member)) ensemble.commit(this.#member, entry);
  }
}
