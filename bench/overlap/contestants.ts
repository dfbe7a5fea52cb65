// The contestants of the overlap trial: Tenure's store on each engine, and the peers whose holders
// can be cut off.
import { needEngine } from "../../test/servers/given.ts";
import { readPinnedVersion } from "../peers/install.ts";
import { type Peer, peers } from "../peers/peers.ts";
import type { ServerEngine } from "../servers.ts";

/** etcd and proper-lockfile have no shorter one; redlock-universal extends without pause at 1 s. */
export const TTL_MS = 2_000;

/**
 * For a busy machine with two cores. The holder stops 400 ms before the store lets another one in.
 */
export const TIMING: Readonly<Record<string, number>> = {
  ttlMs: TTL_MS,
  renewEveryMs: 500,
  clockErrorMs: 50,
  roundTripMs: 350,
};

export interface Contestant {
  readonly name: string;
  readonly engine: ServerEngine;
  /** A file in bench/peers/libraries. */
  readonly library: string;
  /** Undefined for Tenure. */
  readonly peer?: Peer | undefined;
}

/** Tenure on the given engines, each followed by the peers that run on it. */
export function listContestants(
  engines: readonly ServerEngine[],
  withPeers: boolean,
): readonly Contestant[] {
  return engines.flatMap((engine): Contestant[] => [
    { name: engine, engine, library: "tenure" },
    ...peers
      .filter((peer) => withPeers && peer.engine === engine && peer.cannotBeCutOff === undefined)
      .map((peer) => ({ name: peer.name, engine, library: peer.library ?? peer.name, peer })),
  ]);
}

/** "Tenure on redis 7.0.15", "redlock 5.0.0-beta.2". */
export async function describeVersion({ name, engine, peer }: Contestant): Promise<string> {
  if (peer === undefined) return `Tenure on ${engine} ${(await needEngine(engine)).version}`;
  return `${name} ${readPinnedVersion(peer.package ?? name)}`;
}
