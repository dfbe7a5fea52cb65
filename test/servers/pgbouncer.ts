// PgBouncer for tests: a pooler in transaction mode in front of a PostgreSQL server, as many teams run it. A client has no
// server connection of its own there: nothing that lives in one survives from one transaction to the next.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathOf } from "./engine.ts";
import { needEngine } from "./given.ts";
import { makeFolder } from "./launch.ts";
import { withFreePorts } from "./ports.ts";
import { answersStartup, type PostgresServer, unprivilegedUser } from "./postgres.ts";
import { type RunningServer, startServer } from "./server.ts";

export async function startPgBouncer(behind: PostgresServer): Promise<RunningServer> {
  const engine = await needEngine("pgbouncer");
  const user = unprivilegedUser();
  return withFreePorts(1, async ([port = 0]) => {
    const folder = await makeFolder("pgbouncer", user);
    writeFileSync(join(folder, "pgbouncer.ini"), settingsOf(behind, port));
    return startServer({
      name: "pgbouncer",
      url: `postgres://postgres@127.0.0.1:${port}/postgres`,
      port,
      folder,
      user,
      command: [pathOf(engine, "server"), "pgbouncer.ini"],
      // SIGTERM ends it at once, SIGINT would wait for clients to leave.
      answers: (limitMs) => answersStartup({ host: "127.0.0.1", port }, limitMs),
    });
  });
}

function settingsOf(behind: PostgresServer, port: number): string {
  return `[databases]
* = host=${behind.host} port=${behind.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
# Fewer than the clients, so that they do share.
default_pool_size = 8
max_client_conn = 1000
# Soon after a crash of the server, it is there again.
server_login_retry = 1
`;
}
