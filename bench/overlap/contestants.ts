// Who takes part in the overlap test: our stores by engine, and the peers by the engine they run on. One entry is all that
// an engine or a peer needs here.
import { startEtcd } from "../../test/servers/etcd.ts";
import { needEngine } from "../../test/servers/given.ts";
import { startPostgres } from "../../test/servers/postgres.ts";
import { startRedis } from "../../test/servers/redis.ts";
import type { RunningServer } from "../../test/servers/server.ts";
import { startZooKeeper } from "../../test/servers/zookeeper.ts";
import { pinnedVersion } from "../peers/install.ts";

/** What is timed there is a program that starts and ends, with the lock in between; a call of flock(2) would be far shorter. */
export const FLOCK = "flock(1), a process per lock";

/** etcd and proper-lockfile have no shorter one, and redlock-universal, at 1 s, extends without a pause. */
export const TTL_MS = 2_000;

/** Bounds for a busy machine of two cores: the holder stops 400 ms before the store would let another in. */
export const TIMING: Readonly<Record<string, number>> = {
  ttlMs: TTL_MS,
  renewEveryMs: 500,
  clockErrorMs: 50,
  roundTripMs: 350,
};

export type EngineId = "redis" | "postgres" | "etcd" | "zookeeper";

export interface Contestant {
  readonly name: string;
  readonly engine: EngineId;
  /** A file in libraries/. */
  readonly library: string;
  readonly isOurs: boolean;
}

/** How to start a server of each. */
export const engines: Readonly<Record<EngineId, () => Promise<RunningServer>>> = {
  redis: () => startRedis({ own: true }),
  postgres: () => startPostgres({ settings: { max_connections: "200" } }),
  etcd: () => startEtcd({ own: true }),
  zookeeper: () => startZooKeeper({ own: true }),
};

export const engineIds: readonly EngineId[] = Object.keys(engines) as EngineId[];

interface Peer {
  readonly name: string;
  readonly engine: EngineId;
  /** Where it is not the name. */
  readonly package?: string;
}

const peers: readonly Peer[] = [
  { name: "redlock", engine: "redis" },
  { name: "redis-semaphore", engine: "redis" },
  { name: "redlock-universal", engine: "redis" },
  { name: "verrou", engine: "redis", package: "@verrou/core" },
  { name: "etcd3", engine: "etcd" },
  { name: "etcd3-election", engine: "etcd", package: "etcd3" },
];

/** Who cannot be cut off, and why not; where all are shown, they are named. */
export const uncuttable: Readonly<Record<string, string>> = {
  advisory:
    "it sends nothing while it holds, and no time ends it: nobody else is let in before the server sees the connection end",
  [`proper-lockfile; ${FLOCK}`]: "a file of one machine, nothing to cut",
};

/** Our stores on the asked engines, each followed by the peers that run on it. */
export function contestantsOf(
  asked: readonly EngineId[],
  withPeers: boolean,
): readonly Contestant[] {
  return asked.flatMap((engine) => [
    { name: engine, engine, library: "tenure", isOurs: true },
    ...peers
      .filter((peer) => withPeers && peer.engine === engine)
      .map(({ name }) => ({ name, engine, library: name, isOurs: false })),
  ]);
}

/** What was measured: "redis 7.0.15" of an engine, "redlock 5.0.0-beta.2" of a peer. */
export async function versionOf({ name, engine, isOurs }: Contestant): Promise<string> {
  if (isOurs) return `Tenure on ${engine} ${(await needEngine(engine)).version}`;
  const { package: from = name } = peers.find((peer) => peer.name === name) ?? {};
  return `${name} ${pinnedVersion(from)}`;
}
