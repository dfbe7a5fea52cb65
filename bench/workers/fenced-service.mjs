// A service that httpGuard() protects. With `postgresUrl` it keeps the highest tokens in that
// server; without, in a memory guard that answers after 4 to 12 ms. PUT /large is answered with 20
// MB, every other request with a few bytes.

import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { httpGuard } from "tenure/guards/http";
import { memoryGuard } from "tenure/guards/memory";
import { settings } from "../../test/process/workers/kit.mjs";

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

async function openPostgresGuard() {
  const { default: pg } = await import("pg");
  const { postgresGuard } = await import("tenure/guards/postgres");
  const pool = new pg.Pool({ connectionString: settings.postgresUrl, max: 10 });
  return postgresGuard(pool, { prefix: "http_guard" });
}

const fence = httpGuard({
  guard: settings.postgresUrl === undefined ? delayedGuard() : await openPostgresGuard(),
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
