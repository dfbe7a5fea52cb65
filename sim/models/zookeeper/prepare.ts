// Turns a request into the changes it will make. The leader checks each part against its data and
// against the earlier parts of the same request. Either all parts are accepted or none.

import { ERROR } from "../../../src/clients/zookeeper/messages.ts";
import type { Op } from "./requests.ts";
import { type Change, parentPath, type Tree } from "./tree.ts";

export type Prepared =
  | { readonly changes: readonly Change[]; readonly refused?: undefined }
  | { readonly changes: readonly []; readonly refused: { error: number; at: number } };

/** A node as it will be once the earlier parts are applied. */
interface PendingNode {
  readonly exists: boolean;
  readonly version: number;
  readonly created: number;
  readonly childCount: number;
  readonly owner: number;
}

const ABSENT: PendingNode = { exists: false, version: 0, created: 0, childCount: 0, owner: 0 };

export function prepare(tree: Tree, session: number, ops: readonly Op[]): Prepared {
  const pending = new PendingView(tree);
  const changes: Change[] = [];
  for (const [at, op] of ops.entries()) {
    pending.isLast = at === ops.length - 1;
    const change = op.kind === "create" ? creation(pending, session, op) : other(pending, op);
    if (typeof change === "number") return { changes: [], refused: { error: change, at } };
    changes.push(change);
  }
  return { changes };
}

class PendingView {
  readonly #tree: Tree;
  #changed: Map<string, PendingNode> | undefined;

  /** Set for the last part, whose effect no later part reads. */
  isLast = false;

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  get(path: string): PendingNode {
    const changed = this.#changed?.get(path);
    if (changed !== undefined) return changed;
    const node = this.#tree.nodes.get(path);
    if (node === undefined) return ABSENT;
    const { version, created, owner, children } = node;
    return { exists: true, version, created, owner, childCount: children.size };
  }

  change(path: string, pending: PendingNode): void {
    if (this.isLast) return;
    this.#changed ??= new Map();
    this.#changed.set(path, pending);
  }
}

function creation(
  pending: PendingView,
  session: number,
  op: Extract<Op, { kind: "create" }>,
): Change | number {
  const above = parentPath(op.path);
  const parent = pending.get(above);
  if (!parent.exists) return ERROR.noNode;
  // A real server counts in signed 32-bit numbers. No run gets that far.
  const path = op.isNumbered ? op.path + String(parent.created).padStart(10, "0") : op.path;
  if (pending.get(path).exists) return ERROR.nodeExists;
  if (parent.owner !== 0) return ERROR.noChildrenForEphemerals;
  const owner = op.isEphemeral ? session : 0;
  const { created, childCount } = parent;
  pending.change(above, { ...parent, created: created + 1, childCount: childCount + 1 });
  pending.change(path, { ...ABSENT, exists: true, owner });
  return { kind: "create", path, data: op.data, owner, isContainer: op.isContainer };
}

function other(pending: PendingView, op: Exclude<Op, { kind: "create" }>): Change | number {
  const { kind, path } = op;
  const node = pending.get(path);
  if (!node.exists) return ERROR.noNode;
  if (op.version !== -1 && op.version !== node.version) return ERROR.badVersion;
  if (kind === "delete") {
    if (node.childCount > 0) return ERROR.notEmpty;
    const above = parentPath(path);
    const parent = pending.get(above);
    pending.change(above, { ...parent, childCount: parent.childCount - 1 });
    pending.change(path, ABSENT);
  }
  if (kind !== "set") return { kind, path };
  pending.change(path, { ...node, version: node.version + 1 });
  return { kind, path, data: op.data };
}
