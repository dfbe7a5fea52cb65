// ZooKeeper's data as one server has them: nodes with their versions and owners, and the sessions that exist. What is
// agreed is applied entry by entry, in the same order at every server. No network and no clock here.

import type { Asked } from "./connection.ts";

export class Node {
  readonly path: string;
  data: Buffer;
  readonly czxid: number;
  mzxid: number;
  mtimeMs: number;
  /** The last change among its children. */
  pzxid: number;
  version = 0;
  /** How many children were ever created below it: the next one's number. */
  created = 0;
  /** The session that it lives and dies with; 0: none. */
  readonly owner: number;
  readonly isContainer: boolean;
  /** In the order of their creation. */
  readonly children: Set<string>;

  constructor(zxid: number, atMs: number, { path, data, owner, isContainer }: Creation) {
    this.path = path;
    this.data = data;
    this.czxid = zxid;
    this.mzxid = zxid;
    this.mtimeMs = atMs;
    this.pzxid = zxid;
    this.owner = owner;
    this.isContainer = isContainer;
    // What has an owner never has children.
    this.children = owner === 0 ? new Set() : NONE;
  }
}

const NONE: Set<string> = new Set();

/** A node's figures at one moment. */
export type Stat = Omit<Node, "path" | "data" | "isContainer" | "children"> & {
  readonly length: number;
  readonly childCount: number;
};

interface Creation {
  readonly kind: "create";
  readonly path: string;
  readonly data: Buffer;
  readonly owner: number;
  readonly isContainer: boolean;
}

export type Change =
  | Creation
  | { readonly kind: "set"; readonly path: string; readonly data: Buffer }
  | { readonly kind: "delete" | "check"; readonly path: string };

/** One step that a majority has agreed on; a request that was refused is one too, without changes. */
export interface Entry {
  readonly zxid: number;
  /** By the leader's wall clock. */
  readonly atMs: number;
  readonly changes: readonly Change[];
  readonly opened?: { readonly session: number; readonly timeoutMs: number } | undefined;
  readonly closed?: { readonly session: number; readonly isExpired: boolean } | undefined;
  /** Why nothing was done, and which part of the request is to blame. */
  readonly refused?: { readonly error: number; readonly at: number } | undefined;
  /** By whom; the server of that connection answers. */
  readonly asked?: Asked | undefined;
}

export class Tree {
  readonly nodes: Map<string, Node> = new Map();
  /** With their timeouts. */
  readonly sessions: Map<number, number> = new Map();
  readonly containers: Set<string> = new Set();
  lastZxid = 0;
  readonly #owned = new Map<number, Set<string>>();

  constructor(isAlone: boolean) {
    const config = isAlone ? "" : "server.1=zk1:2888:3888:participant;0.0.0.0:2181";
    for (const path of ["", "/zookeeper", "/zookeeper/config"])
      this.#create(0, 0, {
        ...{ kind: "create", path, owner: 0, isContainer: false },
        data: Buffer.from(path.endsWith("config") ? config : ""),
      });
  }

  /** What a session has, in the order of creation. */
  ownedBy(session: number): string[] {
    return [...(this.#owned.get(session) ?? [])];
  }

  /** Answers with the figures of each node that was written, in the place of that change. */
  apply(entry: Entry): (Stat | undefined)[] {
    const { zxid, atMs, opened, closed } = entry;
    this.lastZxid = zxid;
    if (opened !== undefined) this.sessions.set(opened.session, opened.timeoutMs);
    if (closed !== undefined) this.sessions.delete(closed.session);
    return entry.changes.map((change) => {
      if (change.kind === "create") this.#create(zxid, atMs, change);
      else if (change.kind === "delete") this.#delete(zxid, change.path);
      else if (change.kind === "set") return this.#set(entry, change.path, change.data);
      return undefined;
    });
  }

  #create(zxid: number, atMs: number, change: Creation): void {
    const { path, owner, isContainer } = change;
    const parent = this.nodes.get(parentOf(path));
    this.nodes.set(path, new Node(zxid, atMs, change));
    if (isContainer) this.containers.add(path);
    if (owner !== 0) {
      const owned = this.#owned.get(owner);
      if (owned === undefined) this.#owned.set(owner, new Set([path]));
      else owned.add(path);
    }
    if (parent === undefined) return;
    parent.children.add(nameOf(path));
    parent.created += 1;
    parent.pzxid = zxid;
  }

  #delete(zxid: number, path: string): void {
    const node = this.nodes.get(path);
    if (node === undefined) return;
    this.nodes.delete(path);
    if (node.isContainer) this.containers.delete(path);
    this.#owned.get(node.owner)?.delete(path);
    const parent = this.nodes.get(parentOf(path));
    if (parent === undefined) return;
    parent.children.delete(nameOf(path));
    parent.pzxid = zxid;
  }

  #set({ zxid, atMs }: Entry, path: string, data: Buffer): Stat | undefined {
    const node = this.nodes.get(path);
    if (node === undefined) return undefined;
    node.data = data;
    node.mzxid = zxid;
    node.mtimeMs = atMs;
    node.version += 1;
    return statOf(node);
  }
}

export function statOf(node: Node): Stat {
  const { czxid, mzxid, mtimeMs, pzxid, version, created, owner, data, children } = node;
  const [length, childCount] = [data.length, children.size];
  return { czxid, mzxid, mtimeMs, pzxid, version, created, owner, length, childCount };
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
