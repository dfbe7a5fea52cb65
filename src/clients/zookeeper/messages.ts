// The messages of ZooKeeper's protocol that Tenure needs, as functions from and to bytes. Numbers and layouts are those of
// the server's own zookeeper.jute; nothing here knows of leases.

import { type JuteReader, JuteWriter } from "./jute.ts";

export const OPCODE = {
  create: 1,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  sync: 9,
  getChildren2: 12,
  check: 13,
  multi: 14,
  createContainer: 19,
  auth: 100,
  addWatch: 106,
  closeSession: -11,
} as const;

/** Requests have numbers above these. */
export const XID = { event: -1, auth: -4 } as const;

export const ERROR = {
  unimplemented: -6,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  noChildrenForEphemerals: -108,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  authFailed: -115,
  sessionMoved: -118,
  saslRequired: -124,
} as const;

export const CREATE = {
  persistent: 0,
  ephemeral: 1,
  persistentSequential: 2,
  ephemeralSequential: 3,
  container: 4,
} as const;

/** Of a node, as far as it is needed. */
export interface Stat {
  /** The transaction that created the node: larger than that of anything created before it. */
  readonly czxid: bigint;
  /** The transaction that last wrote its data. */
  readonly mzxid: bigint;
  /** When that was, in milliseconds since 1970 by the wall clock of the server that led then. */
  readonly mtimeMs: number;
  /** How often its data were written since. */
  readonly version: number;
  readonly childCount: number;
}

/** A request: its number and how its body is written. */
export interface Message {
  readonly opcode: number;
  write(body: JuteWriter): void;
}

export interface Acl {
  readonly scheme: string;
  readonly id: string;
}

const ALL_PERMISSIONS = 31;
const FAILED_PART = -1;
const NOT_TRIED = -2;

/** What a node holds: ours is text, a user's may be anything. */
export type Data = string | Uint8Array;

export interface NewNode {
  readonly path: string;
  readonly data: Data;
  readonly acl: Acl;
  readonly flags: number;
}

export function create(node: NewNode): Message {
  const opcode = node.flags === CREATE.container ? OPCODE.createContainer : OPCODE.create;
  return {
    opcode,
    write: (body) => {
      body.text(node.path).data(node.data).int(1);
      body.int(ALL_PERMISSIONS).text(node.acl.scheme).text(node.acl.id).int(node.flags);
    },
  };
}

export function remove(path: string, version = -1): Message {
  return { opcode: OPCODE.delete, write: (body) => body.text(path).int(version) };
}

export function exists(path: string): Message {
  return { opcode: OPCODE.exists, write: (body) => body.text(path).bool(false) };
}

export function getData(path: string, watch = false): Message {
  return { opcode: OPCODE.getData, write: (body) => body.text(path).bool(watch) };
}

export function setData(path: string, data: Data, version: number): Message {
  return { opcode: OPCODE.setData, write: (body) => body.text(path).data(data).int(version) };
}

/** Part of a multi: all of it fails unless the node's data have been written exactly so often; -1: unless it is there. */
export function check(path: string, version: number): Message {
  return { opcode: OPCODE.check, write: (body) => body.text(path).int(version) };
}

export function getChildren2(path: string): Message {
  return { opcode: OPCODE.getChildren2, write: (body) => body.text(path).bool(false) };
}

export function sync(path: string): Message {
  return { opcode: OPCODE.sync, write: (body) => body.text(path) };
}

export const closeSession: Message = { opcode: OPCODE.closeSession, write: () => undefined };

export function digestAuth(userAndPassword: string): Message {
  return {
    opcode: OPCODE.auth,
    write: (body) => body.int(0).text("digest").text(userAndPassword),
  };
}

/** Tells of everything below the path until the session ends or another connection is made. Needs 3.6. */
export function watchBelow(path: string): Message {
  const RECURSIVE = 1;
  return { opcode: OPCODE.addWatch, write: (body) => body.text(path).int(RECURSIVE) };
}

/** All of them or none, in one step. */
export function multi(parts: readonly Message[]): Message {
  return {
    opcode: OPCODE.multi,
    write: (body) => {
      for (const part of parts) {
        body.int(part.opcode).bool(false).int(-1);
        part.write(body);
      }
      body.int(-1).bool(true).int(-1);
    },
  };
}

export interface ConnectRequest {
  readonly lastZxid: bigint;
  readonly timeoutMs: number;
  readonly sessionId: bigint;
  readonly password: Uint8Array;
}

export function connectFrame(request: ConnectRequest): Buffer {
  const body = new JuteWriter().int(0).long(request.lastZxid).int(request.timeoutMs);
  const mayBeReadOnly = false;
  return body.long(request.sessionId).buffer(request.password).bool(mayBeReadOnly).frame();
}

export interface ConnectResponse {
  /** 0: the session is over. */
  readonly timeoutMs: number;
  readonly sessionId: bigint;
  readonly password: Buffer;
  readonly readOnly: boolean;
}

export function readConnectResponse(body: JuteReader): ConnectResponse {
  body.int();
  const timeoutMs = body.int();
  const sessionId = body.long();
  const password = Buffer.from(body.buffer());
  return { timeoutMs, sessionId, password, readOnly: body.left > 0 && body.bool() };
}

export function requestFrame(xid: number, message: Message): Buffer {
  const body = new JuteWriter().int(xid).int(message.opcode);
  message.write(body);
  return body.frame();
}

const LONG = 8;
const INT = 4;

export function readStat(body: JuteReader): Stat {
  const czxid = body.long();
  const mzxid = body.long();
  // The time of the creation.
  body.pass(LONG);
  const mtimeMs = Number(body.long());
  const version = body.int();
  // The versions of children and ACL, the owner, the length of the data.
  body.pass(2 * INT + LONG + INT);
  const childCount = body.int();
  body.pass(LONG);
  return { czxid, mzxid, mtimeMs, version, childCount };
}

export function readDataAndStat(body: JuteReader): { readonly data: string; readonly stat: Stat } {
  return { data: body.text(), stat: readStat(body) };
}

export interface MultiAnswer {
  /** 0 when all of it was done; else nothing was, and this is why. */
  readonly error: number;
  /** Which part it was, counted from 0; -1 when none failed. */
  readonly failedAt: number;
  /** One for each part, in order; only creations and writes have something to say. */
  readonly parts: readonly { readonly path?: string; readonly stat?: Stat }[];
}

export function readMulti(body: JuteReader): MultiAnswer {
  const parts: { path?: string; stat?: Stat }[] = [];
  let error = 0;
  let failedAt = -1;
  for (let index = 0; body.left > 0; index += 1) {
    const opcode = body.int();
    const isEnd = body.bool();
    body.int();
    if (isEnd) break;
    if (opcode === FAILED_PART) {
      const reason = body.int();
      // Parts before the one that failed say 0, those behind it only that they were not tried.
      if (error === 0 || error === NOT_TRIED) {
        error = reason;
        failedAt = reason === 0 ? -1 : index;
      }
    } else if (opcode === OPCODE.create) parts.push({ path: body.text() });
    else if (opcode === OPCODE.setData) parts.push({ stat: readStat(body) });
    else parts.push({});
  }
  return { error, failedAt, parts };
}

const NODE_DELETED = 2;

/** A watched node has changed. */
export interface WatchEvent {
  readonly path: string;
  readonly isDeletion: boolean;
}

export function readEvent(body: JuteReader): WatchEvent {
  const isDeletion = body.int() === NODE_DELETED;
  // The state of the connection.
  body.int();
  return { path: body.text(), isDeletion };
}
