// Starts PgBouncer for tests, as a pooler in transaction mode in front of a PostgreSQL server.
// Consecutive transactions of a client may use different server connections, so no session state
// survives a transaction.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { findPath } from "./engine.ts";
import { needEngine } from "./given.ts";
import { makeFolder } from "./launch.ts";
import { withFreePorts } from "./ports.ts";
import { answersStartup, type PostgresServer, unprivilegedUser } from "./postgres.ts";
import { type RunningServer, startServer } from "./server.ts";

export async function startPgBouncer(target: PostgresServer): Promise<RunningServer> {
  const engine = await needEngine("pgbouncer");
  const user = unprivilegedUser();
  return withFreePorts(1, async ([port = 0]) => {
    const folder = await makeFolder("pgbouncer", user);
    writeFileSync(join(folder, "pgbouncer.ini"), formatSettings(target, port));
    return startServer({
      name: "pgbouncer",
      url: `postgres://postgres@127.0.0.1:${port}/postgres`,
      port,
      folder,
      user,
      command: [findPath(engine, "server"), "pgbouncer.ini"],
      // SIGTERM stops it at once. SIGINT would wait until all clients have disconnected.
      answers: (limitMs) => answersStartup({ host: "127.0.0.1", port }, limitMs),
    });
  });
}

function formatSettings(target: PostgresServer, port: number): string {
  return `[databases]
* = host=${target.host} port=${target.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
# Fewer than the clients, so that they share connections.
default_pool_size = 8
max_client_conn = 1000
# Reconnect soon after a crash of the server.
server_login_retry = 1
`;
}
