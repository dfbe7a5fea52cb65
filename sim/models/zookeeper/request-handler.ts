// Serves the clients of one server. Each connection is answered in order. Reads are answered from
// the server's own data, which may be stale. Everything else is decided by the leader, and answered
// when this server applies the committed entry.

import { ERROR, OPCODE } from "../../../src/clients/zookeeper/messages.ts";
import {
  changeAnswer,
  EVENT,
  head,
  helloAnswer,
  multiAnswer,
  writeEvent,
  writeStat,
} from "./answers.ts";
import type { Asked, Connection } from "./connection.ts";
import { TICK_MS } from "./ensemble.ts";
import type { Member } from "./member.ts";
import { type Request, readHello, readRequest } from "./requests.ts";
import { type Entry, type Stat, toStat } from "./tree.ts";
import { Watches } from "./watches.ts";

const SESSION_MIN_MS = 2 * TICK_MS;
/** Configured as for the real server in the tests. The default is twenty ticks. */
const SESSION_MAX_MS = 120_000;
const SRVR = "srvr";

export class RequestHandler {
  readonly #member: Member;
  readonly #connections = new Set<Connection>();
  readonly #watches = new Watches();

  constructor(member: Member) {
    this.#member = member;
  }

  accept(connection: Connection): void {
    this.#connections.add(connection);
  }

  disconnected(connection: Connection): void {
    this.#connections.delete(connection);
  }

  closeAll(): void {
    for (const connection of this.#connections) connection.close();
    this.#connections.clear();
    this.#watches.clear();
  }

  /** Receives one or several whole frames. */
  receive(connection: Connection, bytes: Buffer): void {
    if (bytes.length === SRVR.length && bytes.toString("latin1") === SRVR) {
      const mode = this.#member.role === "leading" ? "leader" : "follower";
      const report = `Zookeeper version: 3.8.0\nMode: ${mode}\nNode count: 1\n`;
      connection.send(Buffer.from(report));
      this.#close(connection);
      return;
    }
    connection.batch(() => this.#frames(connection, bytes));
  }

  #frames(connection: Connection, bytes: Buffer): void {
    for (let at = 0; at < bytes.length && connection.isOpen; ) {
      const end = at + 4 + bytes.readInt32BE(at);
      const frame = bytes.subarray(at + 4, end);
      at = end;
      if (connection.isHandshakeDone) this.#take(connection, readRequest(frame));
      else this.#hello(connection, frame);
    }
  }

  #hello(connection: Connection, frame: Buffer): void {
    connection.isHandshakeDone = true;
    const { lastZxid, request } = readHello(frame);
    // A client that has seen newer data than this server has must use another server.
    if (lastZxid > this.#member.tree.lastZxid) {
      this.#close(connection);
      return;
    }
    if (request.kind === "reopen")
      for (const other of [...this.#connections])
        if (other.session === request.session) this.#close(other);
    const asked = Math.max(SESSION_MIN_MS, Math.min(SESSION_MAX_MS, request.timeoutMs));
    connection.timeoutMs = asked;
    this.#take(connection, request);
  }

  #take(connection: Connection, request: Request): void {
    if (connection.waiting.push(request) === 1) this.#begin(connection, request);
  }

  #begin(connection: Connection, request: Request): void {
    const { role, link, sessions, tree, decisions } = this.#member;
    const { session, timeoutMs } = connection;
    const asked = { connection, request };
    if (role === "leading") {
      if (session !== 0) sessions.touch(session, timeoutMs);
      if (request.kind !== "sync" && request.kind !== "read") decisions.decide(asked, undefined);
      else if ((sessions.get(session)?.owner ?? this.#member) !== this.#member) {
        const error = ERROR.sessionMoved;
        this.#answer(asked, head(request.xid, tree.lastZxid, error).frame());
      } else if (request.kind === "sync") this.synced(asked);
      else this.#read(connection, request);
      return;
    }
    if (session !== 0) link?.active.set(session, timeoutMs);
    if (request.kind === "read") this.#read(connection, request);
    else link?.forward(asked);
  }

  /** Called when the leader has decided whether the session lives. */
  reopened(asked: Asked, id: number, isValid: boolean): void {
    const { connection } = asked;
    if (!connection.isOpen) return;
    if (isValid) connection.session = id;
    this.#answer(asked, helloAnswer(isValid ? id : 0, isValid ? connection.timeoutMs : 0));
    if (!isValid) this.#close(connection);
  }

  synced(asked: Asked): void {
    const { connection, request } = asked;
    if (request.kind !== "sync") return;
    const { lastZxid } = this.#member.tree;
    if (connection.isOpen)
      this.#answer(asked, head(request.xid, lastZxid).text(request.path).frame());
  }

  /**
   * Called when an entry has been applied to this server's data. Notifies watches first, then
   * answers the request.
   */
  applied(entry: Entry, stats: readonly (Stat | undefined)[]): void {
    for (const { kind, path } of entry.changes) {
      if (kind === "check") continue;
      const event =
        kind === "create" ? EVENT.created : kind === "delete" ? EVENT.deleted : EVENT.changed;
      this.#watches.notify(path, () => writeEvent(event, path));
    }
    const { asked, closed, opened } = entry;
    if (asked !== undefined && this.#connections.has(asked.connection)) {
      if (opened !== undefined) asked.connection.session = opened.session;
      this.#answer(asked, writeAnswer(asked, entry, stats));
    }
    if (closed === undefined) return;
    for (const connection of [...this.#connections])
      if (connection.session === closed.session) this.#close(connection);
  }

  #answer({ connection, request }: Asked, bytes: Buffer): void {
    connection.send(bytes);
    const { waiting } = connection;
    if (waiting[0] !== request) throw new Error("A request was answered out of order.");
    waiting.shift();
    const [next] = waiting;
    if (next !== undefined) this.#begin(connection, next);
  }

  #read(connection: Connection, request: Extract<Request, { kind: "read" }>): void {
    const { xid, opcode, path, watches } = request;
    const { tree, ensemble } = this.#member;
    const { zxid: agreed = 0 } = ensemble.log.at(-1) ?? {};
    if (tree.lastZxid < agreed) ensemble.witness.saw("a read from a server that is behind");
    const node = tree.nodes.get(path);
    if (watches) this.#watches.add(path, connection, opcode === OPCODE.addWatch);
    const asked = { connection, request };
    if (opcode === OPCODE.addWatch) {
      this.#answer(asked, head(xid, tree.lastZxid).int(0).frame());
      return;
    }
    if (node === undefined) {
      this.#answer(asked, head(xid, tree.lastZxid, ERROR.noNode).frame());
      return;
    }
    const body = head(xid, tree.lastZxid);
    if (opcode === OPCODE.getData) body.buffer(node.data);
    if (opcode === OPCODE.getChildren2) {
      body.int(node.children.size);
      for (const name of node.children) body.text(name);
    }
    this.#answer(asked, writeStat(body, toStat(node)).frame());
  }

  #close(connection: Connection): void {
    this.#connections.delete(connection);
    connection.close();
  }
}

function writeAnswer(
  { connection, request }: Asked,
  entry: Entry,
  stats: readonly (Stat | undefined)[],
): Buffer {
  if (request.kind === "open") return helloAnswer(connection.session, connection.timeoutMs);
  if (request.kind === "write" && request.isMulti && entry.refused?.at !== -1)
    return multiAnswer(request.xid, request.ops, entry, stats);
  return changeAnswer("xid" in request ? request.xid : 0, entry, stats);
}
