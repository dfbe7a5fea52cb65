// Goal: a role that may only connect cannot crash, block or mislead a process that waits or watches
// (S8, audit H1). Method: on a real server, send junk notifications while one process holds, one
// waits and one watches, through both client libraries.
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { linkFromUrl, type PgLibrary } from "../../../src/clients/postgres/pg-link.ts";
import { connect } from "../../../src/index.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";

const server = useServer(startPostgres);
/** Malformed facts, and facts about other sessions. */
const JUNK = [
  "",
  "x",
  "changed",
  "test",
  "[]",
  "null",
  '["granted"]',
  '["granted", "s", "r", "1"]',
  '["granted", "unknown", "r", "9", "a"]',
  '["lost", 1, {}, null]',
  `["lost", "s", "r", "-1"]`,
  `["wanted", "s", "${"x".repeat(5_000)}", "1"]`,
];

test.each(["pg", "postgres"] as const)(
  "S8: junk notifications from another role affect neither waiters nor watchers (%s)",
  async (library) => {
    const schema = `hostile_${library}`;
    const open = () => connect(postgresStore({ url: server().url, library, prefix: schema }));
    const [one, two] = [await open(), await open()];
    onTestFinished(() => one.close({ drainMs: 0 }));
    onTestFinished(() => two.close({ drainMs: 0 }));
    await server().sql(
      `DO $$ BEGIN CREATE ROLE mallory LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`,
    );
    const held = await one.acquire("r");
    const waiting = two.acquire("r", { waitMs: 30_000 });
    const seen: string[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      for await (const view of two.watch("", { signal: stop.signal })) seen.push(view.resource);
    })();
    const url = new URL(server().url);
    url.username = "mallory";
    const mallory = new pg.Client({ connectionString: url.href });
    await mallory.connect();
    onTestFinished(() => mallory.end());
    // The channels are random. An administrator could give them away.
    const channels = (await server().sql(`SELECT string_agg(channel, ',') FROM ${schema}.session`))
      .split(",")
      .filter((channel) => channel !== "");
    expect(channels.length).toBeGreaterThan(1);
    for (const channel of channels)
      for (const payload of JUNK)
        await mallory.query("SELECT pg_notify($1, $2)", [channel, payload]);
    expect(held.check()).toBe(held.token);
    await held.release();
    const next = await waiting;
    expect(next.token).toBeGreaterThan(held.token);
    await one.acquire("other");
    await expect.poll(() => seen, { timeout: 10_000 }).toContain("other");
    stop.abort();
    await watching;
  },
);

/** Receives the notifications for another client too, as a client of a pooler does. */
class SharedClient extends pg.Client {
  constructor(settings: pg.ClientConfig) {
    super(settings);
    const connect = this.connect.bind(this);
    Object.assign(this, {
      connect: async () => {
        await connect();
        await this.query("LISTEN other");
      },
    });
  }
}

test("S8: a notification for another client, which a pooler delivered here, is ignored", async () => {
  const { url } = server();
  const library = { Pool: pg.Pool, Client: SharedClient } as unknown as PgLibrary;
  const link = linkFromUrl(library, { url, address: url, connectMs: 5_000, listenUrl: undefined });
  onTestFinished(() => link.close());
  const received: string[] = [];
  const listening = await link.listen?.("own", {
    onNotification: (payload) => received.push(payload),
    onBroken: () => undefined,
  });
  onTestFinished(() => listening?.close());
  await server().sql("NOTIFY other, 'not for us'; NOTIFY own, 'for us'");
  await listening?.ping();
  expect(received).toEqual(["for us"]);
});
