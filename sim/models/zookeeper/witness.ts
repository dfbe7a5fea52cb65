// Notes in the trace what happened to Tenure's leases and sessions, by what the ensemble committed.
// The holder of a resource is its first queue node (src/stores/zookeeper/grant.ts), from the
// deletion of the node before it on.

import { decodeName, namesOf, queueNodesOf } from "../../../src/clients/zookeeper/names.ts";
import { decodeNode } from "../../../src/stores/zookeeper/record.ts";
import type { HostClocks } from "../../world/host-clocks.ts";
import type { Ending, Trace } from "../../world/trace.ts";
import type { Session, Sessions } from "./sessions.ts";
import { type Entry, type Node, parentPath, type Tree } from "./tree.ts";

interface Place {
  readonly resource: string;
  readonly token: bigint;
  readonly session: string;
  readonly attempt: string;
  isGranted: boolean;
}

const names = namesOf("/tenure");
const BELOW_LEASES = `${names.leases}/`;
const BELOW_SESSIONS = `${names.sessions}/`;

export class Witness {
  readonly #trace: Trace;
  readonly #places = new Map<string, Place>();
  /** The Tenure session of each ZooKeeper session. */
  readonly #sessions = new Map<number, string>();

  constructor(trace: Trace) {
    this.#trace = trace;
  }

  saw(sight: string): void {
    this.#trace.countModelEvent(sight);
  }

  /**
   * Notes that the leader reset a session's clock. Only what a holder may count on is noted, which
   * keeps the trace short.
   */
  kept({ id, expiresAt }: Session, clocks: HostClocks): void {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    const until = clocks.trueInstant(expiresAt);
    this.#trace.note("store", { kind: "storeKept", session, until });
  }

  /**
   * Notes that a session has expired, by the last activity the leader knew of, whether that was a
   * renewal or not.
   */
  expired({ id, expiresAt }: Session, clocks: HostClocks): void {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    const until = clocks.trueInstant(expiresAt);
    this.#trace.note("store", { kind: "storeExpired", session, until });
  }

  /** Whether a write to this node is a renewal. */
  isRenewal(path: string): boolean {
    return path.startsWith(BELOW_SESSIONS);
  }

  /**
   * Called before an entry is applied to the leader's data, while the nodes it deletes still exist.
   */
  before({ changes, closed }: Entry): void {
    const isRevocation = changes.some(
      ({ kind, path }) => kind === "set" && path.startsWith(BELOW_SESSIONS),
    );
    const how: Ending =
      closed !== undefined ? "sessionEnded" : isRevocation ? "revoked" : "withdrawn";
    for (const { kind, path } of changes) {
      const place = kind === "delete" ? this.#places.get(path) : undefined;
      if (place === undefined) continue;
      this.#places.delete(path);
      const { resource, token, isGranted } = place;
      if (isGranted && closed?.isExpired !== true)
        this.#trace.note("store", { kind: "storeFreed", resource, token, how });
    }
  }

  /** Called after the entry was applied. */
  after({ changes }: Entry, tree: Tree, sessions: Sessions, clocks: HostClocks): void {
    const parents = new Set<string>();
    for (const { kind, path } of changes) {
      if (!path.startsWith(BELOW_LEASES) || (kind !== "create" && kind !== "delete")) continue;
      parents.add(parentPath(path));
      const node = tree.nodes.get(path);
      if (node !== undefined && node.owner !== 0) this.#placed(node, sessions, clocks);
    }
    for (const parent of parents) {
      const [first] = queueNodesOf([...(tree.nodes.get(parent)?.children ?? [])]);
      const place = first && this.#places.get(`${parent}/${first.name}`);
      if (place !== undefined) this.#granted(place);
    }
  }

  #placed(node: Node, sessions: Sessions, clocks: HostClocks): void {
    const { path, owner, czxid } = node;
    const resource = decodeName(parentPath(path).slice(BELOW_LEASES.length));
    if (resource === undefined) return;
    const { sessionId: session, attempt } = decodeNode(node.data.toString()).record;
    const token = BigInt(czxid);
    this.#places.set(path, { resource, token, session, attempt, isGranted: false });
    if (this.#sessions.has(owner)) return;
    this.#sessions.set(owner, session);
    const own = sessions.get(owner);
    if (own !== undefined) this.kept(own, clocks);
  }

  #granted(place: Place): void {
    if (place.isGranted) return;
    place.isGranted = true;
    const { resource, token, session, attempt } = place;
    this.#trace.note("store", { kind: "storeGranted", resource, token, session, attempt });
  }
}
