// The server's side of ZooKeeper's messages: writes answers and events.

import { JuteWriter } from "../../../src/clients/zookeeper/jute.ts";
import { OPCODE, XID } from "../../../src/clients/zookeeper/messages.ts";
import type { Op } from "./requests.ts";
import type { Change, Entry, Stat } from "./tree.ts";

/** The kinds of events that the store can subscribe to. */
export const EVENT = { created: 1, deleted: 2, changed: 3 } as const;

const CONNECTED = 3;
const FAILED_PART = -1;
const NOT_TRIED = -2;
const PASSWORD = Buffer.alloc(16, 7);
const OPCODES: Readonly<Record<Op["kind"], number>> = {
  create: OPCODE.create,
  set: OPCODE.setData,
  delete: OPCODE.delete,
  check: OPCODE.check,
};

/** A timeout of 0 means that the session has ended. */
export function helloAnswer(session: number, timeoutMs: number): Buffer {
  const body = new JuteWriter(64).int(0).int(timeoutMs).long(BigInt(session));
  return body.buffer(PASSWORD).bool(false).frame();
}

export function head(xid: number, zxid: number, error = 0): JuteWriter {
  return new JuteWriter(128).int(xid).long(BigInt(zxid)).int(error);
}

export function writeEvent(kind: number, path: string): Buffer {
  return head(XID.event, -1).int(kind).int(CONNECTED).text(path).frame();
}

export function writeStat(body: JuteWriter, stat: Stat): JuteWriter {
  const { czxid, mzxid, mtimeMs, pzxid, version, created, owner, length, childCount } = stat;
  // The store does not use the creation time.
  body
    .long(BigInt(czxid))
    .long(BigInt(mzxid))
    .long(0n)
    .long(BigInt(Math.floor(mtimeMs)));
  // The child version counts how often children were created or deleted.
  body
    .int(version)
    .int(2 * created - childCount)
    .int(0);
  return body.long(BigInt(owner)).int(length).int(childCount).long(BigInt(pzxid));
}

/** The answer to a single change. */
export function changeAnswer(
  xid: number,
  { zxid, refused, changes }: Entry,
  stats: readonly (Stat | undefined)[],
): Buffer {
  const body = head(xid, zxid, refused?.error);
  writePart(body, changes[0], stats[0]);
  return body.frame();
}

/**
 * The answer to several changes. If one was rejected, those before it carry error 0, and those
 * after it carry a code that says they were not tried.
 */
export function multiAnswer(
  xid: number,
  ops: readonly Op[],
  { zxid, refused, changes }: Entry,
  stats: readonly (Stat | undefined)[],
): Buffer {
  const body = head(xid, zxid);
  for (const [index, { kind }] of ops.entries()) {
    if (refused === undefined) {
      body.int(OPCODES[kind]).bool(false).int(0);
      writePart(body, changes[index], stats[index]);
    } else {
      const error = index < refused.at ? 0 : index === refused.at ? refused.error : NOT_TRIED;
      body.int(FAILED_PART).bool(false).int(error).int(error);
    }
  }
  return body.int(-1).bool(true).int(-1).frame();
}

function writePart(body: JuteWriter, change: Change | undefined, stat: Stat | undefined): void {
  if (change?.kind === "create") body.text(change.path);
  if (stat !== undefined) writeStat(body, stat);
}
