// A program for watchdog.test.ts: starts servers, says so in one line, and then ends as it is told, or not at all.
// Usage: held.ts <temp folder> <engine> <ending>
import { startPostgres } from "./postgres.ts";
import { startRedis } from "./redis.ts";

const [folder, engine, ending] = process.argv.slice(2);
// Only now: the compiler that runs this file keeps its cache where it always is.
process.env.TMPDIR = folder;

const server = await (engine === "postgres"
  ? startPostgres({ own: true })
  : startRedis({ own: true }));
if (ending === "paused") await server.pause();
process.stdout.write(`${JSON.stringify({ pid: server.pid, folder: server.folder })}\n`);
if (ending === "exit") process.exit(0);
if (ending === "crash") throw new Error("as planned");
// A program that is merely done ends by itself: no server and no watchdog keeps it.
if (ending !== "done") setInterval(() => undefined, 1_000);
