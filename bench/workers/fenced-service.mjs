// A service behind httpGuard() in a process of its own. Its guard is that of the PostgreSQL server whose URL is given, or, without
// one, a guard in memory that answers after 4 to 12 ms. PUT /large is answered with 20 MB, every other request with a few bytes.

import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { httpGuard } from "tenure/guards/http";
import { memoryGuard } from "tenure/guards/memory";

const [, , url = ""] = process.argv;
const LARGE = "x".repeat(20_000_000);

function delayedGuard() {
  const { advance, highest } = memoryGuard();
  let calls = 0;
  return {
    highest,
    advance: async (source) => {
      calls += 1;
      const delayMs = 2 + ((calls * 3) % 5);
      await sleep(delayMs);
      advance(source);
      await sleep(delayMs);
    },
  };
}

async function postgres() {
  const { default: pg } = await import("pg");
  const { postgresGuard } = await import("tenure/guards/postgres");
  return postgresGuard(new pg.Pool({ connectionString: url, max: 10 }));
}

const fence = httpGuard({
  guard: url === "" ? delayedGuard() : await postgres(),
  resource: "ledger",
});
const server = createServer(
  fence.guarded(async (request, response) => {
    for await (const chunk of request) void chunk;
    response.end(request.url === "/large" ? LARGE : "done");
  }),
);
server.listen(0, "127.0.0.1", () => process.send(server.address().port));
process.on("disconnect", () => process.exit());
