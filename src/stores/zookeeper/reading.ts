// What others see of a lease. The first place of a resource is its holder, unless it only waits for its owner to take its
// turn. Nobody can come before the first, so a place that a listing has first, and that exists a moment later, is the holder
// at that later moment.

import type { Clock } from "../../async/clock.ts";
import type { Call } from "../../clients/zookeeper/call.ts";
import {
  ERROR,
  getChildren2,
  getData,
  readDataAndStat,
  type Stat,
} from "../../clients/zookeeper/messages.ts";
import { decodeName, type Names } from "../../clients/zookeeper/names.ts";
import { expectOk, placesIn } from "../../clients/zookeeper/nodes.ts";
import { heldForMs } from "../../core/record.ts";
import type { HolderView, LeaseView, ListPage, ListRequest } from "../contract.ts";
import { WAITING } from "./place.ts";
import { decodePlace, shownPlace } from "./record.ts";

export interface Holder {
  readonly path: string;
  /** Name of the ZooKeeper session that it belongs to. */
  readonly session: string;
  readonly data: string;
  readonly stat: Stat;
}

export interface Look {
  readonly holder: Holder | undefined;
  /** The state of the server that answered. */
  readonly zxid: bigint;
}

export async function lookAt(call: Call, parent: string): Promise<Look> {
  for (;;) {
    call.throwIfOver();
    const listing = await call.send(getChildren2(parent));
    if (listing.error === ERROR.noNode) return { holder: undefined, zxid: listing.zxid };
    expectOk(listing, call);
    const first = placesIn(listing)[0];
    if (first === undefined) return { holder: undefined, zxid: listing.zxid };
    const path = `${parent}/${first.name}`;
    const reply = await call.send(getData(path));
    // Gone since the listing: the next one may be first by now.
    if (reply.error === ERROR.noNode) continue;
    expectOk(reply, call);
    const { data, stat } = readDataAndStat(reply.body);
    const holder = { path, session: first.session, data, stat };
    return { holder: stat.version === WAITING ? undefined : holder, zxid: reply.zxid };
  }
}

/** `placeOf` decides what a malformed node means. */
export function viewOf(
  { data, stat }: Holder,
  wallMs: number,
  placeOf: typeof decodePlace = decodePlace,
): HolderView {
  const { timeoutMs, record } = placeOf(data);
  const { holderId, sessionId, value } = record;
  return {
    ...{ holderId, sessionId, token: stat.czxid, value },
    // The most that can be left: nobody but the leader knows when the session was last heard of.
    expiresInMs: timeoutMs,
    // The last write to a holder's node is the one that made it the holder: its creation, or the end of its wait.
    heldForMs: heldForMs({ grantedAtMs: stat.mtimeMs }, wallMs),
  };
}

/** How many resources are looked at in one go. */
const BATCH = 100;

export interface ViewParts {
  readonly names: Names;
  readonly clock: Clock;
}

export async function listPage(
  call: Call,
  parts: ViewParts,
  request: ListRequest,
): Promise<ListPage> {
  const { prefix, after, limit } = request;
  const listing = await call.send(getChildren2(parts.names.leases));
  expectOk(listing, call);
  const resources = listing.body
    .texts()
    .map(decodeName)
    .filter((name) => name?.startsWith(prefix) && (after === undefined || name > after))
    .sort() as string[];
  const leases: LeaseView[] = [];
  for (let at = 0; at < resources.length && leases.length <= limit; at += BATCH) {
    const batch = resources.slice(at, at + BATCH);
    const views = await Promise.all(batch.map((resource) => viewAt(call, parts, resource)));
    leases.push(...views.filter((view) => view.holder !== undefined));
  }
  const page = leases.slice(0, limit);
  return { leases: page, next: leases.length > limit ? page.at(-1)?.resource : undefined };
}

export async function viewAt(
  call: Call,
  { names, clock }: ViewParts,
  resource: string,
): Promise<LeaseView> {
  const { holder } = await lookAt(call, names.parent(resource));
  return holder === undefined
    ? { resource }
    : { resource, holder: viewOf(holder, clock.wallNow(), shownPlace) };
}
