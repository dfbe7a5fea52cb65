// The program that watchdog.test.ts runs: it starts a server, prints one line, and then exits or
// keeps running as its last argument says.
// Usage: watchdog-program.ts <temp folder> <engine> <ending>
import { startPostgres } from "./postgres.ts";
import { startRedis } from "./redis.ts";

const [folder, engine, ending] = process.argv.slice(2);
// Set only now, because the compiler that runs this file keeps its cache in the usual temp folder.
process.env.TMPDIR = folder;

const server = await (engine === "postgres"
  ? startPostgres({ own: true })
  : startRedis({ own: true }));
if (ending === "paused") await server.pause();
process.stdout.write(`${JSON.stringify({ pid: server.pid, folder: server.folder })}\n`);
if (ending === "exit") process.exit(0);
if (ending === "crash") throw new Error("The test requested this crash.");
// With "done" the program ends by itself: neither the server nor the watchdog keeps it alive.
if (ending !== "done") setInterval(() => undefined, 1_000);
