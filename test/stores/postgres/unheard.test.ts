// Goal: the end of a session wakes who waits for what it was granted without hearing of it. Method: a real server, a proxy that loses
// answers, and somebody who listens to what the server tells.
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { channelOf } from "../../../src/stores/postgres/schema.ts";
import { until } from "../../servers/ask.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { reasonOf } from "../../support/stores/lost-replies.ts";

const LIMIT_MS = 5_000;
const SCHEMA = "unheard";
const server = useServer(startPostgres);

async function open(url: string, ...sessionIds: string[]): Promise<Store> {
  const store = await postgresStore({ url, prefix: SCHEMA })(systemParts());
  onTestFinished(() => store.close());
  for (const sessionId of sessionIds)
    await store.openSession({ sessionId, holderId: sessionId, ttlMs: 60_000, limitMs: LIMIT_MS });
  return store;
}

test("L2: a grant whose answer got lost, also one that was withdrawn since, is told with the end of its session", async () => {
  const proxy = await startProxy(server());
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const other = await open(server().url, "other");
  const store = await open(proxy.url, "one");
  const listener = new pg.Client({ connectionString: server().url });
  onTestFinished(() => listener.end());
  await listener.connect();
  const told: string[] = [];
  listener.on("notification", ({ payload = "" }) => told.push(payload));
  await listener.query(`LISTEN "${channelOf(SCHEMA)}"`);

  const one = { sessionId: "one", resource: "r", attempt: "one.1" };
  const ask = { holderId: "one", queue: false };
  proxy.cut("replies");
  const lost = await reasonOf(store.grant({ ...one, ...ask, limitMs: 300 }));
  expect(lost).toMatchObject({ applied: "unknown" });
  await proxy.heal();
  const withdrawn = (): Promise<boolean> =>
    store.withdraw({ ...one, limitMs: LIMIT_MS }).then(
      () => true,
      () => false,
    );
  await until("it is withdrawn over a new connection", withdrawn, 10_000);
  // A copy of the request comes late.
  const copy = await other.grant({ ...one, attempt: "one.2", ...ask, limitMs: LIMIT_MS });
  expect(copy.kind).toBe("granted");
  const wish = { sessionId: "other", attempt: "other.1", holderId: "other", queue: true };
  expect(await other.grant({ ...wish, resource: "r", limitMs: LIMIT_MS })).toMatchObject({
    kind: "busy",
  });
  told.length = 0;
  await store.endSession({ sessionId: "one", limitMs: LIMIT_MS });
  const isTold = async (): Promise<boolean> => told.includes('t["r", ["other.1"]]');
  await until("who waits is told", isTold, LIMIT_MS);
});
