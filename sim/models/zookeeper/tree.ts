// The data of one ZooKeeper server: nodes with their versions and owners, and the existing
// sessions. Every server applies the committed entries one by one, in the same order. This file
// knows neither network nor clock.

import type { Asked } from "./connection.ts";

export class Node {
  readonly path: string;
  data: Buffer;
  readonly czxid: number;
  mzxid: number;
  mtimeMs: number;
  /** The number of the last change among its children. */
  pzxid: number;
  version = 0;
  /** How many children were ever created below it, which is the number of the next one. */
  created = 0;
  /** The session that it is deleted with, or 0. */
  readonly owner: number;
  readonly isContainer: boolean;
  /** In order of creation. */
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
    // An ephemeral node never has children.
    this.children = owner === 0 ? new Set() : NONE;
  }
}

const NONE: Set<string> = new Set();

/** The statistics of a node at one moment. */
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

/** One step that a majority has committed. A rejected request is an entry too, without changes. */
export interface Entry {
  readonly zxid: number;
  /** By the leader's wall clock. */
  readonly atMs: number;
  readonly changes: readonly Change[];
  readonly opened?: { readonly session: number; readonly timeoutMs: number } | undefined;
  readonly closed?: { readonly session: number; readonly isExpired: boolean } | undefined;
  /** Why nothing was done, and which part of the request caused it. */
  readonly refused?: { readonly error: number; readonly at: number } | undefined;
  /** The request that caused this entry. The server of its connection answers it. */
  readonly asked?: Asked | undefined;
}

export class Tree {
  readonly nodes: Map<string, Node> = new Map();
  /** Timeouts by session. */
  readonly sessions: Map<number, number> = new Map();
  readonly containers: Set<string> = new Set();
  lastZxid = 0;
  readonly #owned = new Map<number, Set<string>>();

  constructor(isAlone: boolean) {
    const config = isAlone ? "" : "server.1=zk1:2888:3888:participant;0.0.0.0:2181";
    for (const path of ["", "/zookeeper", "/zookeeper/config"])
      this.#create(0, 0, {
        kind: "create",
        path,
        owner: 0,
        isContainer: false,
        data: Buffer.from(path.endsWith("config") ? config : ""),
      });
  }

  /** The nodes of a session, in order of creation. */
  ownedBy(session: number): string[] {
    return [...(this.#owned.get(session) ?? [])];
  }

  /** Applies an entry. Returns the statistics of each written node, at the index of its change. */
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
    const parent = this.nodes.get(parentPath(path));
    this.nodes.set(path, new Node(zxid, atMs, change));
    if (isContainer) this.containers.add(path);
    if (owner !== 0) {
      const owned = this.#owned.get(owner);
      if (owned === undefined) this.#owned.set(owner, new Set([path]));
      else owned.add(path);
    }
    if (parent === undefined) return;
    parent.children.add(baseName(path));
    parent.created += 1;
    parent.pzxid = zxid;
  }

  #delete(zxid: number, path: string): void {
    const node = this.nodes.get(path);
    if (node === undefined) return;
    this.nodes.delete(path);
    if (node.isContainer) this.containers.delete(path);
    this.#owned.get(node.owner)?.delete(path);
    const parent = this.nodes.get(parentPath(path));
    if (parent === undefined) return;
    parent.children.delete(baseName(path));
    parent.pzxid = zxid;
  }

  #set({ zxid, atMs }: Entry, path: string, data: Buffer): Stat | undefined {
    const node = this.nodes.get(path);
    if (node === undefined) return undefined;
    node.data = data;
    node.mzxid = zxid;
    node.mtimeMs = atMs;
    node.version += 1;
    return toStat(node);
  }
}

export function toStat(node: Node): Stat {
  const { czxid, mzxid, mtimeMs, pzxid, version, created, owner, data, children } = node;
  const [length, childCount] = [data.length, children.size];
  return { czxid, mzxid, mtimeMs, pzxid, version, created, owner, length, childCount };
}

export function parentPath(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
