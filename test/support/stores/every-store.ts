// Connects to every store that several processes can share, each on a real server, for rules that
// must hold on all of them. Call these functions at the top of a describe block: connections are
// closed after each test.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach } from "vitest";
import { connect } from "../../../src/connect.ts";
import type { Tenure } from "../../../src/tenure.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";

const engines: Record<string, () => () => string> = {
  sqlite: () => {
    const folder = mkdtempSync(join(tmpdir(), "tenure-every-"));
    afterAll(() => rmSync(folder, { recursive: true, force: true }));
    return () => `sqlite:${join(folder, "tenure.db")}`;
  },
  postgres: () => toUrl(useServer(startPostgres)),
  redis: () => toUrl(useServer(startRedis)),
  etcd: () => toUrl(useServer(startEtcd)),
  zookeeper: () => toUrl(useServer(startZooKeeper)),
};

function toUrl(server: () => { readonly url: string }): () => string {
  return () => server().url;
}

export const everyStore: readonly string[] = Object.keys(engines);

/** Returns a function that returns the URL of this engine, once its server runs. */
export function urlOf(engine: string): () => string {
  return engines[engine]?.() as () => string;
}

/** Returns a function that connects another machine, under the given holder id, to this engine. */
export function machinesOn(engine: string): (holderId: string) => Promise<Tenure> {
  const url = urlOf(engine);
  const open: Tenure[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((tenure) => tenure.close()));
  });
  return async (holderId) => {
    const tenure = await connect(url(), { holderId });
    open.push(tenure);
    return tenure;
  };
}

let names = 0;

/** A resource name that has not been used before, even on a server that outlives the test run. */
export function freshName(what: string): string {
  names += 1;
  return `${what}-${process.pid}-${Date.now()}-${names}`;
}
