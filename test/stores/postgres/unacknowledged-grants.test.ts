// Goal: ending a session wakes the waiters on resources that it was granted without receiving the
// reply. Method: a real server, a proxy that drops replies, and a client that listens for the
// server's notifications.
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

test("L2: ending a session notifies the waiters of a grant whose reply was lost, even one that was withdrawn since", async () => {
  const proxy = await startProxy(server());
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const other = await open(server().url, "other");
  const store = await open(proxy.url, "one");
  const listener = new pg.Client({ connectionString: server().url });
  onTestFinished(() => listener.end());
  await listener.connect();
  const payloads: string[] = [];
  listener.on("notification", ({ payload = "" }) => payloads.push(payload));
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
  // A copy of the request arrives late.
  const copy = await other.grant({ ...one, attempt: "one.2", ...ask, limitMs: LIMIT_MS });
  expect(copy.kind).toBe("granted");
  const wish = { sessionId: "other", attempt: "other.1", holderId: "other", queue: true };
  expect(await other.grant({ ...wish, resource: "r", limitMs: LIMIT_MS })).toMatchObject({
    kind: "busy",
  });
  payloads.length = 0;
  await store.endSession({ sessionId: "one", limitMs: LIMIT_MS });
  const isNotified = async (): Promise<boolean> => payloads.includes('t["r", ["other.1"]]');
  await until("the waiter is notified", isNotified, LIMIT_MS);
});
