// Notes in the trace what happened to Tenure's leases and sessions, by what the ensemble committed.
// The holder of a resource follows from its queue nodes (src/stores/zookeeper/place.ts): a node
// that was alone when it was created holds, and so does a node that its owner marked as taken.

import { decodeName, namesOf } from "../../../src/clients/zookeeper/names.ts";
import { decodePlace } from "../../../src/stores/zookeeper/record.ts";
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

const TAKEN = 2;
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
  before({ changes, closed, asked }: Entry, tree: Tree): void {
    const isRevocation = changes.some(
      ({ kind, path }) => kind === "set" && path.startsWith(BELOW_SESSIONS),
    );
    const how: Ending =
      closed !== undefined ? "sessionEnded" : isRevocation ? "revoked" : "withdrawn";
    for (const { kind, path } of changes) {
      if (kind !== "delete") continue;
      const place = this.#places.get(path);
      const node = tree.nodes.get(path);
      if (place === undefined || node === undefined) continue;
      this.#places.delete(path);
      if (closed?.isExpired === true) continue;
      const { resource, token, attempt } = place;
      if (!place.isGranted && closed === undefined && asked?.connection.session !== node.owner)
        this.#trace.note("store", { kind: "storePassedOver", resource, attempt, isRevocation });
      if (place.isGranted) this.#trace.note("store", { kind: "storeFreed", resource, token, how });
    }
  }

  /** Called after the entry was applied. */
  after({ changes }: Entry, tree: Tree, sessions: Sessions, clocks: HostClocks): void {
    for (const { kind, path } of changes) {
      if (kind !== "create" && kind !== "set") continue;
      if (!path.startsWith(BELOW_LEASES)) continue;
      const node = tree.nodes.get(path);
      if (node === undefined || node.owner === 0) continue;
      if (kind === "create") this.#placed(node, sessions, clocks);
      const place = this.#places.get(path);
      if (place === undefined) continue;
      const isAlone = kind === "create" && tree.nodes.get(parentPath(path))?.children.size === 1;
      if (isAlone || node.version === TAKEN) this.#granted(place);
    }
  }

  #placed(node: Node, sessions: Sessions, clocks: HostClocks): void {
    const { path, owner, czxid } = node;
    const resource = decodeName(parentPath(path).slice(BELOW_LEASES.length));
    if (resource === undefined) return;
    const { sessionId: session, attempt } = decodePlace(node.data.toString()).record;
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
