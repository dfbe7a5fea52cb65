// The server's side of ZooKeeper's messages: reads requests. The store's own code wrote the bytes,
// so a mistake in either one shows. Layouts are those of the server's zookeeper.jute.

import { JuteReader } from "../../../src/clients/zookeeper/jute.ts";
import { CREATE, OPCODE } from "../../../src/clients/zookeeper/messages.ts";

/** One requested change. */
export type Op =
  | {
      readonly kind: "create";
      readonly path: string;
      readonly data: Buffer;
      readonly isEphemeral: boolean;
      readonly isNumbered: boolean;
      readonly isContainer: boolean;
    }
  | { readonly kind: "delete" | "check"; readonly path: string; readonly version: number }
  | {
      readonly kind: "set";
      readonly path: string;
      readonly data: Buffer;
      readonly version: number;
    };

export type Request =
  | { readonly kind: "open"; readonly timeoutMs: number }
  | { readonly kind: "reopen"; readonly session: number; readonly timeoutMs: number }
  | { readonly kind: "close"; readonly xid: number }
  | { readonly kind: "sync"; readonly xid: number; readonly path: string }
  | {
      readonly kind: "write";
      readonly xid: number;
      readonly isMulti: boolean;
      readonly ops: readonly Op[];
    }
  | {
      readonly kind: "read";
      readonly xid: number;
      readonly opcode: number;
      readonly path: string;
      readonly watches: boolean;
    };

/** The first frame of a connection. */
export interface Hello {
  readonly lastZxid: number;
  readonly request: Extract<Request, { kind: "open" | "reopen" }>;
}

export function readHello(frame: Buffer): Hello {
  const body = new JuteReader(frame);
  body.int();
  const lastZxid = Number(body.long());
  const timeoutMs = body.int();
  const session = Number(body.long());
  return {
    lastZxid,
    request: session === 0 ? { kind: "open", timeoutMs } : { kind: "reopen", session, timeoutMs },
  };
}

export function readRequest(frame: Buffer): Request {
  const body = new JuteReader(frame);
  const xid = body.int();
  const opcode = body.int();
  switch (opcode) {
    case OPCODE.closeSession:
      return { kind: "close", xid };
    case OPCODE.sync:
      return { kind: "sync", xid, path: body.text() };
    case OPCODE.exists:
    case OPCODE.getData:
    case OPCODE.getChildren2:
      return { kind: "read", xid, opcode, path: body.text(), watches: body.bool() };
    case OPCODE.addWatch:
      return { kind: "read", xid, opcode, path: body.text(), watches: true };
    case OPCODE.multi:
      return { kind: "write", xid, isMulti: true, ops: readParts(body) };
    default:
      return { kind: "write", xid, isMulti: false, ops: [readOp(opcode, body)] };
  }
}

function readParts(body: JuteReader): Op[] {
  const ops: Op[] = [];
  for (;;) {
    const opcode = body.int();
    const isEnd = body.bool();
    body.int();
    if (isEnd) return ops;
    ops.push(readOp(opcode, body));
  }
}

function readOp(opcode: number, body: JuteReader): Op {
  const path = body.text();
  switch (opcode) {
    case OPCODE.create:
    case OPCODE.createContainer: {
      const data = body.buffer();
      for (let acls = body.int(); acls > 0; acls -= 1) {
        body.int();
        body.text();
        body.text();
      }
      const flags = body.int();
      const isEphemeral = flags === CREATE.ephemeral || flags === CREATE.ephemeralSequential;
      const isNumbered =
        flags === CREATE.persistentSequential || flags === CREATE.ephemeralSequential;
      const isContainer = flags === CREATE.container;
      return { kind: "create", path, data, isEphemeral, isNumbered, isContainer };
    }
    case OPCODE.setData:
      return { kind: "set", path, data: body.buffer(), version: body.int() };
    case OPCODE.delete:
      return { kind: "delete", path, version: body.int() };
    case OPCODE.check:
      return { kind: "check", path, version: body.int() };
    default:
      throw new Error(`The model of ZooKeeper does not know request ${opcode}.`);
  }
}
