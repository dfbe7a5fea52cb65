// Reads the holder of a resource, and revokes a lease. The first node of a queue is the holder. No
// node can come before it, so a node that a listing shows first, and that exists a moment later, is
// the holder at that later moment.

import type { Clock } from "../../async/clock.ts";
import type { Call } from "../../clients/zookeeper/call.ts";
import {
  ERROR,
  getChildren2,
  getData,
  readDataAndStat,
  remove,
  type Stat,
} from "../../clients/zookeeper/messages.ts";
import { decodeName, type Names } from "../../clients/zookeeper/names.ts";
import { heldForMs } from "../../core/record.ts";
import type { HolderView, LeaseRef, LeaseView, ListPage, ListRequest } from "../contract.ts";
import { queueIn } from "./grant.ts";
import { readAppend } from "./notices.ts";
import { decodeNode, type Notice, shownNode } from "./record.ts";

export interface Holder {
  readonly path: string;
  /** The name of the ZooKeeper session that it belongs to. */
  readonly session: string;
  readonly data: string;
  readonly stat: Stat;
}

export interface FoundHolder {
  readonly holder: Holder | undefined;
  /** The state of the server that answered. */
  readonly zxid: bigint;
}

export async function findHolder(call: Call, parent: string): Promise<FoundHolder> {
  for (;;) {
    call.throwIfOver();
    const listing = await call.ask(getChildren2(parent), ERROR.noNode);
    const [first] = queueIn(listing);
    if (first === undefined) return { holder: undefined, zxid: listing.zxid };
    const path = `${parent}/${first.name}`;
    const reply = await call.ask(getData(path), ERROR.noNode);
    // If it was deleted since the listing, another node may be the first now.
    if (reply.error !== 0) continue;
    const { data, stat } = readDataAndStat(reply.body);
    return { holder: { path, session: first.session, data, stat }, zxid: reply.zxid };
  }
}

/** `decode` decides what a malformed node means. */
export function viewOf(
  { data, stat }: Holder,
  wallMs: number,
  decode: typeof decodeNode = decodeNode,
): HolderView {
  const { timeoutMs, record } = decode(data);
  const { holderId, sessionId, value } = record;
  return {
    holderId,
    sessionId,
    token: stat.czxid,
    value,
    // The most that can be left: only the leader knows when the session was last active.
    expiresInMs: timeoutMs,
    heldForMs: heldForMs({ grantedAtMs: stat.mtimeMs }, wallMs),
  };
}

/** How many resources a listing reads at a time. */
const PAGE = 100;

export interface ViewParts {
  readonly names: Names;
  readonly clock: Clock;
}

export async function listPage(
  call: Call,
  parts: ViewParts,
  { prefix, after, limit }: Omit<ListRequest, "limitMs">,
): Promise<ListPage> {
  const listing = await call.ask(getChildren2(parts.names.leases));
  const resources = listing.body
    .texts()
    .map(decodeName)
    .filter((name) => name?.startsWith(prefix) && (after === undefined || name > after))
    .sort() as string[];
  const leases: LeaseView[] = [];
  for (let at = 0; at < resources.length && leases.length <= limit; at += PAGE) {
    const page = resources.slice(at, at + PAGE);
    const views = await Promise.all(page.map((resource) => viewResource(call, parts, resource)));
    leases.push(...views.filter((view) => view.holder !== undefined));
  }
  const page = leases.slice(0, limit);
  return { leases: page, next: leases.length > limit ? page.at(-1)?.resource : undefined };
}

export async function viewResource(
  call: Call,
  { names, clock }: ViewParts,
  resource: string,
): Promise<LeaseView> {
  const { holder } = await findHolder(call, names.parent(resource));
  return holder === undefined
    ? { resource }
    : { resource, holder: viewOf(holder, clock.wallNow(), shownNode) };
}

/**
 * Deletes the holder's node and appends a notice for its session, in one transaction. So there is
 * no moment at which the resource is free and a renewal of the former holder would not report it.
 * True if the resource was held with this token.
 */
export async function revoke(call: Call, names: Names, ref: LeaseRef): Promise<boolean> {
  const { resource, token } = ref;
  for (;;) {
    call.throwIfOver();
    const { holder } = await findHolder(call, names.parent(resource));
    if (holder?.stat.czxid !== token) return false;
    const { path, session } = holder;
    const notice: Notice = { kind: "lost", session, ref: { resource, token } };
    const append = await readAppend(call, names.noticesNode(session), notice);
    // Without a notices node the session has just ended, or a person has deleted the node.
    const notifies = typeof append === "string" ? [] : [append];
    const { error } = await call.askAll([remove(path), ...notifies]);
    if (error === 0) return true;
    // Another notice or the holder's release came in between.
    if (error !== ERROR.noNode && error !== ERROR.badVersion) throw call.refusal(error);
  }
}
