// The messages of ZooKeeper's protocol that Tenure needs, as functions from and to bytes. Numbers
// and layouts are those of the server's zookeeper.jute.

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

/** The numbers of messages that are not ordinary requests, which count from 1. */
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

/** The state of a node, as far as Tenure needs it. */
export interface Stat {
  /** The transaction that created the node. Nodes that are created later have a larger one. */
  readonly czxid: bigint;
  /** The transaction that last wrote its data. */
  readonly mzxid: bigint;
  /** The time of that write, in milliseconds since 1970 by the wall clock of the leader. */
  readonly mtimeMs: number;
  /** How often its data was written since its creation. */
  readonly version: number;
  readonly childCount: number;
}

/** A request: its opcode, and a function that writes its body. */
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

/** The data of a node: text for Tenure's own nodes, anything for those of a guard's user. */
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

/** Part of a multi: it fails unless the node has this version. -1: unless the node exists. */
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

/** Reports every change below the path until the connection ends. Needs ZooKeeper 3.6. */
export function watchBelow(path: string): Message {
  const RECURSIVE = 1;
  return { opcode: OPCODE.addWatch, write: (body) => body.text(path).int(RECURSIVE) };
}

/** Applies all parts, or none. */
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
  /** 0: the session has expired. */
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
  // The versions of the children and of the ACL, the owner, and the length of the data.
  body.pass(2 * INT + LONG + INT);
  const childCount = body.int();
  body.pass(LONG);
  return { czxid, mzxid, mtimeMs, version, childCount };
}

export function readDataAndStat(body: JuteReader): { readonly data: string; readonly stat: Stat } {
  return { data: body.text(), stat: readStat(body) };
}

export interface MultiAnswer {
  /** 0 if all parts were applied. Otherwise none was, and this is the reason. */
  readonly error: number;
  /** The index of the part that failed; -1 if none did. */
  readonly failedAt: number;
  /** One for each part, in order. Only creations and writes return something. */
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
      // Parts before the one that failed have 0. Those after it were not tried.
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
