// Does the token rise over a restart of the server and of the holder? Tenure is asked; the peers give out none that could.

import { join } from "node:path";
import { connect } from "tenure";
import { startEtcd } from "../../test/servers/etcd.ts";
import { startPostgres } from "../../test/servers/postgres.ts";
import { startRedis } from "../../test/servers/redis.ts";
import type { RunningServer } from "../../test/servers/server.ts";
import { startZooKeeper } from "../../test/servers/zookeeper.ts";
import type { Row, Section } from "../support.ts";

const SERVERS: Readonly<Record<string, () => Promise<RunningServer>>> = {
  Redis: () => startRedis({ own: true, appendonly: true, appendfsync: "always" }),
  PostgreSQL: () => startPostgres({ own: true }),
  etcd: () => startEtcd({ own: true }),
  ZooKeeper: () => startZooKeeper({ own: true }),
};

const PEERS = {
  "redlock, redlock-universal, redis-semaphore, verrou":
    "no token: a random value, without an order",
  "etcd3 Lock": "no token: the revision of its transaction is dropped",
  "etcd3 Election": "rises, but is private: a revision that its user cannot read",
  "advisory locks, proper-lockfile, flock": "no token",
} as const;

export async function tokenSection(folder: string): Promise<Section> {
  const file = `sqlite:${join(folder, "tokens.db")}`;
  const rows = [await rowOf("SQLite", file, async () => undefined)];
  for (const [name, start] of Object.entries(SERVERS)) {
    await using server = await start();
    const restart = async (): Promise<void> => {
      await server.kill();
      await server.start();
    };
    rows.push(await rowOf(name, server.url, restart));
  }
  return {
    title: "Safety: the token over a restart",
    method:
      "Taken and released, the server killed (SIGKILL) and started on its data, taken again by a new holder; Redis with appendfsync always. Of the peers: what their interface gives.",
    rows: [...rows, ...Object.entries(PEERS).map(([what, measured]) => ({ what, measured }))],
  };
}

async function rowOf(name: string, url: string, restart: () => Promise<void>): Promise<Row> {
  const what = `tenure on ${name}: higher after the restart`;
  try {
    const before = await tokenOf(url);
    await restart();
    const after = await tokenOf(url);
    const isHigher = after > before;
    return { what, measured: isHigher ? "yes" : "no", target: "yes", ok: isHigher };
  } catch (error) {
    const measured = `failed: ${(error as Error).message.split("\n")[0]}`;
    return { what, measured, target: "yes", ok: false };
  }
}

async function tokenOf(url: string): Promise<bigint> {
  await using tenure = await connect(url);
  const lease = await tenure.acquire("restarted", { waitMs: 20_000 });
  await lease.release();
  return lease.token;
}
