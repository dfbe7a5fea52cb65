// Servers that tell how much they were asked, by anyone: for what is compared in requests rather than in time.

import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { startEtcd } from "../../test/servers/etcd.ts";
import { startPostgres } from "../../test/servers/postgres.ts";
import { startRedis } from "../../test/servers/redis.ts";
import { etcdRequests, postgresRequests } from "../../test/servers/requests.ts";
import { disposeAll, type RunningServer } from "../../test/servers/server.ts";
import type { EngineName, Servers } from "./entrants.ts";

export interface Counted extends AsyncDisposable {
  readonly servers: Servers;
  /** Asked since it was started; undefined where there is no server. */
  requests(engine: EngineName): Promise<number> | undefined;
}

/** Many locks on one connection, and a connection for each waiter of a library that needs one. */
const POSTGRES = {
  log_statement: "all",
  max_connections: "300",
  max_locks_per_transaction: "128",
} as const;

export async function startCounted(folder: string): Promise<Counted> {
  const redis = await startRedis({ own: true });
  const commands = await monitor(redis);
  const postgres = await startPostgres({ settings: POSTGRES });
  const etcd = await startEtcd({ own: true });
  const counted = mkdtempSync(join(folder, "counted-"));
  return {
    servers: {
      redis: `${redis.url}?library=ioredis`,
      postgres: postgres.url,
      etcd: `etcd://${etcd.host}:${etcd.port}`,
      folder: counted,
    },
    requests: (engine) => {
      if (engine === "PostgreSQL") return postgresRequests(postgres);
      if (engine === "etcd") return etcdRequests(etcd);
      if (engine === "Redis") return commands.count();
      return undefined;
    },
    [Symbol.asyncDispose]: () => {
      commands.close();
      return disposeAll([redis, postgres, etcd]);
    },
  };
}

/** Counts what clients send. The server's own statistics count the commands inside a script, too; MONITOR marks those. */
async function monitor({
  host,
  port,
}: RunningServer): Promise<{ count(): Promise<number>; close(): void }> {
  const socket = connect(port, host);
  await once(socket, "connect");
  let count = 0;
  createInterface({ input: socket }).on("line", (line) => {
    if (line.includes(" [") && !line.includes(" lua] ")) count += 1;
  });
  socket.on("error", () => undefined);
  socket.write("MONITOR\r\n");
  return {
    count: async () => {
      // What was just answered is told a little later.
      await sleep(100);
      return count;
    },
    close: () => socket.destroy(),
  };
}
