// From what is asked to what will change: the leader checks a request against its data, and against the parts of the same
// request before it. All of it or nothing.

import { ERROR } from "../../../src/clients/zookeeper/messages.ts";
import type { Op } from "./requests.ts";
import { type Change, parentOf, type Tree } from "./tree.ts";

export type Prepared =
  | { readonly changes: readonly Change[]; readonly refused?: undefined }
  | { readonly changes: readonly []; readonly refused: { error: number; at: number } };

/** A node as it will be when the parts before are done. */
interface Foreseen {
  readonly isThere: boolean;
  readonly version: number;
  readonly created: number;
  readonly childCount: number;
  readonly owner: number;
}

const ABSENT: Foreseen = { isThere: false, version: 0, created: 0, childCount: 0, owner: 0 };

export function prepare(tree: Tree, session: number, ops: readonly Op[]): Prepared {
  const foreseen = new Foresight(tree);
  const changes: Change[] = [];
  for (const [at, op] of ops.entries()) {
    foreseen.isLast = at === ops.length - 1;
    const change = op.kind === "create" ? creation(foreseen, session, op) : other(foreseen, op);
    if (typeof change === "number") return { changes: [], refused: { error: change, at } };
    changes.push(change);
  }
  return { changes };
}

class Foresight {
  readonly #tree: Tree;
  #changed: Map<string, Foreseen> | undefined;

  /** Set for the last part: nobody asks what it leaves behind. */
  isLast = false;

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  look(path: string): Foreseen {
    const changed = this.#changed?.get(path);
    if (changed !== undefined) return changed;
    const node = this.#tree.nodes.get(path);
    if (node === undefined) return ABSENT;
    const { version, created, owner, children } = node;
    return { isThere: true, version, created, owner, childCount: children.size };
  }

  change(path: string, foreseen: Foreseen): void {
    if (this.isLast) return;
    this.#changed ??= new Map();
    this.#changed.set(path, foreseen);
  }
}

function creation(
  foreseen: Foresight,
  session: number,
  op: Extract<Op, { kind: "create" }>,
): Change | number {
  const above = parentOf(op.path);
  const parent = foreseen.look(above);
  if (!parent.isThere) return ERROR.noNode;
  // The server counts in 32 bits with a sign; no day gets that far.
  const path = op.isNumbered ? op.path + String(parent.created).padStart(10, "0") : op.path;
  if (foreseen.look(path).isThere) return ERROR.nodeExists;
  if (parent.owner !== 0) return ERROR.noChildrenForEphemerals;
  const owner = op.isEphemeral ? session : 0;
  const { created, childCount } = parent;
  foreseen.change(above, { ...parent, created: created + 1, childCount: childCount + 1 });
  foreseen.change(path, { ...ABSENT, isThere: true, owner });
  return { kind: "create", path, data: op.data, owner, isContainer: op.isContainer };
}

function other(foreseen: Foresight, op: Exclude<Op, { kind: "create" }>): Change | number {
  const { kind, path } = op;
  const node = foreseen.look(path);
  if (!node.isThere) return ERROR.noNode;
  if (op.version !== -1 && op.version !== node.version) return ERROR.badVersion;
  if (kind === "delete") {
    if (node.childCount > 0) return ERROR.notEmpty;
    const above = parentOf(path);
    const parent = foreseen.look(above);
    foreseen.change(above, { ...parent, childCount: parent.childCount - 1 });
    foreseen.change(path, ABSENT);
  }
  if (kind !== "set") return { kind, path };
  foreseen.change(path, { ...node, version: node.version + 1 });
  return { kind, path, data: op.data };
}
