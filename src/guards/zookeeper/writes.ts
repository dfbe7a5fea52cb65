// Checks the writes of a guarded multi and converts them to ZooKeeper requests.

import { refusalOf } from "../../clients/zookeeper/failures.ts";
import {
  CREATE,
  check,
  create,
  ERROR,
  type Message,
  remove,
  setData,
} from "../../clients/zookeeper/messages.ts";
import type { Settings } from "../../clients/zookeeper/options.ts";
import { InvalidArgumentError } from "../../core/errors.ts";

/** The data of a node. A text is encoded as UTF-8. */
export type ZooKeeperData = string | Uint8Array;

/**
 * One write of a guarded multi: `create`, `set`, `delete` or `check`, each with the absolute path
 * of the node.
 */
export type ZooKeeperWrite =
  | {
      /**
       * Creates a persistent node. Ephemeral nodes are not supported, because they would end with
       * the guard's own session.
       */
      readonly create: string;
      /** The data of the new node. @default empty */
      readonly data?: ZooKeeperData | undefined;
      /**
       * The server appends a number to the name, and the result has the full path. @default false
       */
      readonly sequential?: boolean | undefined;
    }
  /** `version`: write only if the node has this version. @default any version */
  | { readonly set: string; readonly data: ZooKeeperData; readonly version?: number | undefined }
  /** `version`: delete only if the node has this version. @default any version */
  | { readonly delete: string; readonly version?: number | undefined }
  /** Writes nothing. The other writes happen only if this node exists and has this version. */
  | { readonly check: string; readonly version?: number | undefined };

/**
 * The result of one write: the path of a created node, or the new version of a node that was set.
 */
export interface ZooKeeperWritten {
  /** The full path of the node that was created. Absent for other writes. */
  readonly path?: string | undefined;
  /** The new version of the node that was set. Absent for other writes. */
  readonly version?: number | undefined;
}

/** The default limit of a request (jute.maxbuffer), less some space for the comparison. */
const BYTES_MAX = 1_000_000;
const KINDS = ["create", "set", "delete", "check"] as const;

export function toMessages(writes: unknown, settings: Settings): Message[] {
  if (!Array.isArray(writes) || writes.length === 0) {
    throw new InvalidArgumentError(
      'A guarded write needs a list with at least one of { create }, { set, data }, { delete } and { check }, e.g. [{ set: "/app/limit", data: "10" }].',
    );
  }
  let bytes = 0;
  const messages = writes.map((given: unknown, index) => {
    const write = (typeof given === "object" && given !== null ? given : {}) as Given;
    const kinds = KINDS.filter((each) => write[each] !== undefined);
    const [kind] = kinds;
    if (kind === undefined || kinds.length > 1) {
      throw new InvalidArgumentError(
        `Write ${index + 1} must have exactly one of ${KINDS.join(", ")}, got ${kinds.length}.`,
      );
    }
    const path = checkPath(write[kind], index, settings);
    const data = checkData(write.data, { index, required: kind === "set" });
    bytes += Buffer.byteLength(path) + Buffer.byteLength(data) + 32;
    const version = checkVersion(write.version, index);
    if (kind === "set") return setData(path, data, version);
    if (kind === "delete") return remove(path, version);
    if (kind === "check") return check(path, version);
    const flags = write.sequential === true ? CREATE.persistentSequential : CREATE.persistent;
    return create({ path, data, acl: settings.acl, flags });
  });
  if (bytes <= BYTES_MAX) return messages;
  throw new InvalidArgumentError(
    `These writes have ${bytes} bytes, and ZooKeeper takes ${BYTES_MAX} in one step. Split them.`,
  );
}

type Given = Readonly<Record<string, unknown>>;

function checkPath(path: unknown, index: number, { names }: Settings): string {
  const isPath = typeof path === "string" && /^\/./.test(path) && !/\/$|\0/.test(path);
  if (
    !isPath ||
    path
      .split("/")
      .slice(1)
      .some((part) => /^\.{0,2}$/.test(part))
  ) {
    throw new InvalidArgumentError(
      `The path of write ${index + 1} must be like "/app/limit", got ${JSON.stringify(path)}.`,
    );
  }
  const own = names.root === "/" ? [names.leases, names.sessions, names.guards] : [names.root];
  if (own.some((root) => path === root || path.startsWith(`${root}/`))) {
    throw new InvalidArgumentError(
      `Write ${index + 1} touches "${path}", below which Tenure keeps leases and highest tokens. Nothing was written. Use nodes of your own.`,
    );
  }
  return path;
}

function checkData(
  data: unknown,
  { index, required }: { index: number; required: boolean },
): ZooKeeperData {
  if (typeof data === "string" || data instanceof Uint8Array) return data;
  if (data === undefined && !required) return "";
  throw new InvalidArgumentError(`The data of write ${index + 1} must be a text or bytes.`);
}

function checkVersion(version: unknown, index: number): number {
  if (version === undefined) return -1;
  if (Number.isInteger(version) && Number(version) >= 0 && Number(version) < 2 ** 31)
    return Number(version);
  throw new InvalidArgumentError(
    `The version of write ${index + 1} must be a whole number, 0 or more, got ${String(version)}.`,
  );
}

const REASONS: Readonly<Record<number, string>> = {
  [ERROR.noNode]: "the node or its parent does not exist",
  [ERROR.nodeExists]: "the node already exists",
  [ERROR.badVersion]: "the node has another version",
  [ERROR.notEmpty]: "the node has children",
  [ERROR.noChildrenForEphemerals]: "its parent is ephemeral",
  [ERROR.noAuth]: "the guard's user may not do this there",
};

/** The error for a multi that ZooKeeper rejected because of one write. `index` counts from 0. */
export function explainRejection(
  error: number,
  index: number,
  at: { readonly place: string; readonly resource: string },
): Error {
  const reason = REASONS[error];
  if (reason === undefined) return refusalOf(error, at.place);
  return new InvalidArgumentError(
    `ZooKeeper refused write ${index + 1}: ${reason} (error ${error}). None of the writes was done.`,
    { resource: at.resource },
  );
}
