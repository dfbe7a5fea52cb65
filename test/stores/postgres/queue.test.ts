// Goal: each handoff is one statement and one notification; a lost notification costs at most one
// renewal; nothing is granted to a session that ends at the same time. Method: a real server,
// counted statements, a client that listens to the channel of a session, and transactions of a
// second connection that are held open at the worst moment.
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { GrantOutcome, Store } from "../../../src/stores/contract.ts";
import { type PostgresOptions, postgresStore } from "../../../src/stores/postgres/index.ts";
import { until } from "../../servers/ask.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { countingPool } from "../../support/stores/counting-pool.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";

const postgres = useServer(startPostgres);
const LIMIT_MS = 5_000;
const LONG_MS = 60_000;
/** Of sessions whose process dies. */
const DYING_TTL_MS = 700;
let schemas = 0;

function newSchema(): string {
  schemas += 1;
  return `queue_${schemas}`;
}

async function openStore(options: PostgresOptions): Promise<Store> {
  const store = await postgresStore(options)(systemParts());
  onTestFinished(() => store.close());
  return store;
}

async function session(store: Store, sessionId: string, ttlMs = LONG_MS): Promise<RecordedEvents> {
  const events = new RecordedEvents();
  await store.openSession({ sessionId, holderId: sessionId, ttlMs, events, limitMs: LIMIT_MS });
  return events;
}

function request(sessionId: string, attempt = sessionId) {
  return { sessionId, holderId: sessionId, resource: "r", attempt, limitMs: LIMIT_MS };
}

/** Requests "r" and waits in the queue if it is busy. */
function queue(store: Store, sessionId: string, attempt = sessionId): Promise<GrantOutcome> {
  return store.grant({ ...request(sessionId, attempt), queue: true });
}

async function take(store: Store, sessionId: string, attempt = sessionId): Promise<bigint> {
  const outcome = await queue(store, sessionId, attempt);
  if (outcome.kind !== "granted") throw new Error(`Expected a grant, got ${outcome.kind}.`);
  return outcome.token;
}

function renew(store: Store, sessionId: string): ReturnType<Store["renew"]> {
  return store.renew({ sessionId, withdrawn: [], acknowledged: [], limitMs: LIMIT_MS });
}

async function openClient(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: postgres().url });
  onTestFinished(() => client.end());
  await client.connect();
  return client;
}

/** Collects what the server sends on the channel of a session. */
async function listenTo(schema: string, sessionId: string): Promise<() => Promise<string[]>> {
  const channel = await postgres().sql(
    `SELECT channel FROM ${schema}.session WHERE id = '${sessionId}'`,
  );
  const client = await openClient();
  const payloads: string[] = [];
  client.on("notification", ({ payload = "" }) => payloads.push(payload));
  await client.query(`LISTEN "${channel}"`);
  return async () => {
    // Notifications arrive before the answer to a later statement.
    await client.query("SELECT 1");
    return payloads.splice(0).filter((payload) => !payload.startsWith("test "));
  };
}

/** Waits until a statement that contains this text is blocked by a lock. */
function untilBlocked(text: string): Promise<void> {
  const waiting = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%${text}%'`;
  const isBlocked = async (): Promise<boolean> => (await postgres().sql(waiting)) !== "0";
  return until("a statement is blocked", isBlocked, LIMIT_MS);
}

test("a contended lock costs one statement: the release and the next request share it", async () => {
  const schema = newSchema();
  const pool = new pg.Pool({ connectionString: postgres().url, max: 4 });
  onTestFinished(() => pool.end());
  // Not the statements that test the listening connection.
  const counting = countingPool(pool, (text) => !/notify|handoff/.test(text));
  const one = await openStore({ client: counting, prefix: schema, listen: postgres().url });
  const two = await openStore({ url: postgres().url, prefix: schema });
  const [first, second] = [await session(one, "one"), await session(two, "two")];
  let token = await take(one, "one");
  expect((await queue(two, "two", "two 0")).kind).toBe("queued");
  const before = counting.statements;
  const rounds = 10;
  for (let round = 0; round < rounds; round += 1) {
    const released = one.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
    expect((await queue(one, "one", `one ${round}`)).kind).toBe("queued");
    expect((await released).kind).toBe("released");
    const theirs = await second.tokenOf(`two ${round}`);
    const next = queue(two, "two", `two ${round + 1}`);
    await two.release({ sessionId: "two", resource: "r", token: theirs, limitMs: LIMIT_MS });
    await next;
    token = await first.tokenOf(`one ${round}`);
  }
  expect(counting.statements - before).toBe(rounds);
});

test("a lease without contention sends no notification", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  await session(store, "one");
  const received = await listenTo(schema, "one");
  const token = await take(store, "one");
  await renew(store, "one");
  await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
  await store.endSession({ sessionId: "one", limitMs: LIMIT_MS });
  expect(await received()).toEqual([]);
});

test("a handoff sends one notification, to the process of the next waiter only", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  const others = await openStore({ url: postgres().url, prefix: schema });
  await session(store, "holder");
  for (const name of ["first", "second", "third"])
    await session(name === "first" ? store : others, name);
  const token = await take(store, "holder");
  for (const name of ["first", "second", "third"])
    await queue(name === "first" ? store : others, name);
  const received = await listenTo(schema, "first");
  const receivedByOthers = await listenTo(schema, "second");
  await store.release({ sessionId: "holder", resource: "r", token, limitMs: LIMIT_MS });
  const next = String(token + 1n);
  expect((await received()).map((payload) => JSON.parse(payload))).toEqual([
    ["granted", "first", "r", next, "first"],
    // The others still wait.
    ["wanted", "first", "r", next],
  ]);
  expect(await receivedByOthers()).toEqual([]);
});

test("only the first waiter notifies the holder", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  for (const name of ["holder", "first", "second"]) await session(store, name);
  const token = await take(store, "holder");
  const received = await listenTo(schema, "holder");
  await queue(store, "first");
  await queue(store, "second");
  const wanted = ["wanted", "holder", "r", String(token)];
  expect((await received()).map((payload) => JSON.parse(payload))).toEqual([wanted]);
});

test("L2: if the notification is lost, the next renewal of the waiter reports the grant", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  for (const name of ["holder", "waiter"]) await session(store, name);
  const token = await take(store, "holder");
  await queue(store, "waiter");
  await postgres().sql(`UPDATE ${schema}.session SET channel = 'nowhere' WHERE id = 'waiter'`);
  await store.release({ sessionId: "holder", resource: "r", token, limitMs: LIMIT_MS });
  const granted = [{ resource: "r", token: token + 1n, attempt: "waiter" }];
  expect(await renew(store, "waiter")).toMatchObject({ kind: "renewed", granted });
});

/** "holder" holds "r", these attempts of other sessions wait for it, and their process dies. */
async function dieWaiting(schema: string, attempts: Record<string, string[]>): Promise<void> {
  const dying = await openStore({ url: postgres().url, prefix: schema });
  await session(dying, "holder", DYING_TTL_MS);
  await take(dying, "holder");
  for (const [sessionId, names] of Object.entries(attempts)) {
    await session(dying, sessionId, DYING_TTL_MS);
    for (const name of names) expect((await queue(dying, sessionId, name)).kind).toBe("queued");
  }
  await dying.close();
}

test("L1: a waiter is granted the resource when the holder and the waiters before it have expired", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  const events = await session(store, "last");
  await dieWaiting(schema, { a: ["a"], b: ["b"], c: ["c"] });
  expect((await queue(store, "last")).kind).toBe("queued");
  const isGranted = async (): Promise<boolean> => {
    expect((await renew(store, "last")).kind).toBe("renewed");
    return events.grants.length > 0;
  };
  await until("the last waiter is granted the resource", isGranted, LIMIT_MS);
});

test("L1: several attempts of one session before a waiter count as one session that checks the holder", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  const events = await session(store, "last");
  await dieWaiting(schema, { a: ["a 1", "a 2", "a 3"] });
  expect((await queue(store, "last")).kind).toBe("queued");
  await events.tokenOf("last");
});

test("S6: a revocation reaches the holder at once", async () => {
  const store = await openStore({ url: postgres().url, prefix: newSchema() });
  const events = await session(store, "holder");
  const token = await take(store, "holder");
  await store.revoke({ resource: "r", token, limitMs: LIMIT_MS });
  while (events.losses.length === 0) await events.next();
  expect(events.losses[0]).toEqual({ resource: "r", token });
});

test("S4: a session that is being ended is not granted what it waits for", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  await session(store, "holder");
  const ending = await session(store, "ending");
  const next = await session(store, "next");
  const token = await take(store, "holder");
  await queue(store, "ending");
  await queue(store, "next");
  const end = await openClient();
  await end.query("BEGIN");
  await end.query(`SELECT ${schema}.end_session('ending', 5000)`);
  const released = store.release({ sessionId: "holder", resource: "r", token, limitMs: LIMIT_MS });
  await untilBlocked(schema);
  await end.query("COMMIT");
  expect((await released).kind).toBe("released");
  expect(await next.tokenOf("next")).toBe(token + 1n);
  expect(ending.grants).toEqual([]);
});

test("L2: a waiter that joins while the holder's session is being ended is granted the resource", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  await session(store, "holder");
  await session(store, "waiter");
  const token = await take(store, "holder");
  const end = await openClient();
  await end.query("BEGIN");
  await end.query(`SELECT ${schema}.end_session('holder', 5000)`);
  const joined = queue(store, "waiter");
  await untilBlocked(schema);
  await end.query("COMMIT");
  expect(await joined).toEqual({ kind: "granted", token: token + 1n });
});

test("L2: the end of a session waits for a waiter that is joining, and hands off to it", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  await session(store, "holder");
  const events = await session(store, "waiter");
  const token = await take(store, "holder");
  const join = await openClient();
  await join.query("BEGIN");
  const step = { kind: "grant", resource: "r", session: "waiter", attempt: "waiter" };
  const steps = JSON.stringify([{ ...step, holder: "w", record: "{}", rank: 0, queue: true }]);
  await join.query(`SELECT ${schema}.step('${steps}', true, 5000)`);
  const ended = store.endSession({ sessionId: "holder", limitMs: LIMIT_MS });
  await untilBlocked("end_session");
  await join.query("COMMIT");
  await ended;
  expect(await events.tokenOf("waiter")).toBe(token + 1n);
});

test("a withdrawal waits for a handoff in progress and undoes it", async () => {
  const schema = newSchema();
  const store = await openStore({ url: postgres().url, prefix: schema });
  for (const name of ["holder", "waiter"]) await session(store, name);
  const token = await take(store, "holder");
  await queue(store, "waiter");
  const release = await openClient();
  await release.query("BEGIN");
  const step = { kind: "release", resource: "r", session: "holder", token: String(token) };
  await release.query(`SELECT ${schema}.step('${JSON.stringify([step])}', true, 5000)`);
  const withdrawn = store.withdraw(request("waiter"));
  await untilBlocked("withdraw");
  await release.query("COMMIT");
  await withdrawn;
  const read = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
  expect((await store.read(read)).holder).toBeUndefined();
});

test("two sessions that end at the same time and wait for each other's leases do not deadlock", async () => {
  const store = await openStore({ url: postgres().url, prefix: newSchema() });
  for (let round = 0; round < 20; round += 1) {
    const names = [`one ${round}`, `two ${round}`] as const;
    for (const name of names) {
      await session(store, name);
      const held = { ...request(name), resource: name, attempt: `${name} own` };
      expect((await store.grant({ ...held, queue: false })).kind).toBe("granted");
    }
    const [one, two] = names;
    await store.grant({ ...request(one), resource: two, queue: true });
    await store.grant({ ...request(two), resource: one, queue: true });
    await Promise.all(names.map((sessionId) => store.endSession({ sessionId, limitMs: LIMIT_MS })));
  }
  const deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
  expect(await postgres().sql(deadlocks)).toBe("0");
});
