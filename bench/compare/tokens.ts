// Does what a library gives out with a grant rise from one to the next, also over restarts of the server? Everybody is asked:
// ten grants in a row, each to a new holder, and what the public interface gives of each.

import { join } from "node:path";
import { startEtcd } from "../../test/servers/etcd.ts";
import { startPostgres } from "../../test/servers/postgres.ts";
import { startRedis } from "../../test/servers/redis.ts";
import type { RunningServer } from "../../test/servers/server.ts";
import { startZooKeeper } from "../../test/servers/zookeeper.ts";
import { FLOCK } from "../overlap/contestants.ts";
import type { Row, Section } from "../support.ts";
import { openLocker } from "./locks.ts";
import { verdict } from "./rising.ts";

const GRANTS = 10;

interface Giver {
  readonly library: string;
  /** @default the library */
  readonly name?: string;
  /** What is looked at, by its name in the library's interface. */
  readonly given?: string;
  /** What the ten values cannot show. */
  readonly but?: string;
}

const LEASE_ID =
  "asked of one server: etcd makes it from the number of a member and that member's clock";
const TENURE: Giver = { library: "tenure", given: "lease.token" };

interface Place {
  readonly name: string;
  readonly start?: () => Promise<RunningServer>;
  readonly peers: readonly Giver[];
}

const PLACES: readonly Place[] = [
  { name: "SQLite", peers: [{ library: "proper-lockfile" }, { library: "flock", name: FLOCK }] },
  {
    name: "Redis",
    start: () => startRedis({ own: true, appendonly: true, appendfsync: "always" }),
    peers: [
      { library: "redlock", given: "lock.value" },
      { library: "redlock-universal", given: "handle.value" },
      { library: "redis-semaphore", given: "mutex.identifier" },
      { library: "verrou", given: "lock.getOwner()" },
    ],
  },
  {
    name: "PostgreSQL",
    start: () => startPostgres({ own: true }),
    peers: [{ library: "advisory" }],
  },
  {
    name: "etcd",
    start: () => startEtcd({ own: true }),
    peers: [
      { library: "etcd3", given: "lock.leaseId()", but: LEASE_ID },
      { library: "etcd3-election", given: "campaign.getCampaignKey()", but: LEASE_ID },
    ],
  },
  { name: "ZooKeeper", start: () => startZooKeeper({ own: true }), peers: [] },
];

interface Effort {
  readonly folder: string;
  readonly withPeers: boolean;
  /** Over the ten grants; 9: between any two of them. */
  readonly restarts: number;
}

export async function tokenSection({ folder, withPeers, restarts }: Effort): Promise<Section> {
  const rows = await Promise.all(
    PLACES.map(async ({ name, start, peers }) => {
      await using server = await start?.();
      const url = server?.url ?? folder;
      const isRestart = (grant: number): boolean =>
        Math.floor((grant * restarts) / (GRANTS - 1)) >
        Math.floor(((grant - 1) * restarts) / (GRANTS - 1));
      const found = new Map<Giver, Found>();
      for (const giver of withPeers ? [TENURE, ...peers] : [TENURE])
        found.set(giver, { values: [], failure: undefined });
      for (let grant = 0; grant < GRANTS; grant += 1) {
        if (grant > 0 && isRestart(grant)) {
          await server?.kill();
          await server?.start();
        }
        for (const [giver, each] of found)
          await ask(giver, giver === TENURE ? oursAt(url) : url, each);
      }
      return [...found].map(([giver, each]) => rowOf(giver, name, each));
    }),
  );
  return {
    title: "Safety: the token over a restart",
    method: `${GRANTS} grants in a row, each to a new holder that gives it back; ${restarts} times in between the server is killed (SIGKILL) and started on its data, Redis with appendfsync always. Compared is what the public interface gives out with a grant: numbers as numbers, anything else as text.`,
    rows: rows.flat(),
  };
}

function oursAt(url: string): string {
  return url.includes("://") ? url : `sqlite:${join(url, "tokens.db")}`;
}

interface Found {
  readonly values: unknown[];
  failure: string | undefined;
}

async function ask({ library }: Giver, url: string, found: Found): Promise<void> {
  if (found.failure !== undefined) return;
  try {
    const locker = await openLocker({ library, url });
    try {
      const unlock = await locker.lock("restarted");
      found.values.push(await unlock.given?.());
      await unlock();
    } finally {
      await locker.close();
    }
  } catch (error) {
    found.failure = `failed: ${(error as Error).message.split("\n")[0]}`;
  }
}

function rowOf(
  { library, name = library, given, but }: Giver,
  place: string,
  { values, failure }: Found,
): Row {
  const isOurs = library === TENURE.library;
  const what = `${isOurs ? `tenure on ${place}` : name}: higher at each grant`;
  const measured = failure ?? verdict(values, given, but);
  return isOurs
    ? { what, measured, target: "yes", ok: measured.startsWith("yes") }
    : { what, measured };
}
