// Goal: malformed records, written by a hostile or buggy program, never crash, block or mislead a
// process, and each affects only its own resource (S7, S8, audit H1). Method: on every real server,
// hold a lease, replace its record with junk, and then send every kind of request. Vitest fails on
// an unhandled rejection.
import { describe, expect, onTestFinished, test } from "vitest";
import { fromUrl } from "../../../src/connect.ts";
import { UNREADABLE_HOLDER } from "../../../src/core/record.ts";
import { connect, isTenureError, type Tenure } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import { freshName } from "../../support/stores/every-store.ts";
import {
  type TamperedBackend,
  tamperedBackends,
  useTamperedPostgres,
  useTamperedRedis,
} from "../../support/stores/tampered-backends.ts";

const TTL_MS = 3_000;
const JUNK = [
  "",
  "junk",
  "null",
  "{}",
  '{"v":2}',
  '{"v":1,"holderId":7,"sessionId":"s","attempt":"a"}',
  `{"v":1,"holderId":"h","sessionId":"s","attempt":"a","value":${"[".repeat(6_000)}${"]".repeat(6_000)}}`,
  "\u{1f512}\ufffd",
];

async function machine(backend: TamperedBackend, holderId: string): Promise<Tenure> {
  const tenure = await connect(backend.url(), { holderId, defaults: { ttlMs: TTL_MS } });
  onTestFinished(() => tenure.close({ drainMs: 0 }));
  return tenure;
}

/** The code of the error that the request failed with; any error but a TenureError is rethrown. */
async function catchErrorCode(request: Promise<unknown>): Promise<string | undefined> {
  try {
    await request;
    return undefined;
  } catch (error) {
    if (isTenureError(error)) return error.code;
    throw error;
  }
}

async function listed(tenure: Tenure, prefix: string): Promise<Map<string, string | undefined>> {
  const found = new Map<string, string | undefined>();
  for await (const { resource, holder } of tenure.list(prefix))
    found.set(resource, holder?.holderId);
  return found;
}

/** The resources that a watch reports as held, until the test ends. */
function watched(tenure: Tenure, prefix: string): Set<string> {
  const seen = new Set<string>();
  const stop = new AbortController();
  const watching = (async () => {
    for await (const { resource, holder } of tenure.watch(prefix, { signal: stop.signal }))
      if (holder !== undefined) seen.add(resource);
  })();
  onTestFinished(async () => {
    stop.abort();
    await watching;
  });
  return seen;
}

describe.each(Object.keys(tamperedBackends))("on %s", (engine) => {
  const backend = tamperedBackends[engine]?.() as TamperedBackend;

  test("S7, S8: a malformed record affects only its own resource", async () => {
    const [one, two] = [await machine(backend, "one"), await machine(backend, "two")];
    const prefix = freshName("record");
    const [damaged, other] = [`${prefix}/a`, `${prefix}/b`];
    const held = await one.acquire(damaged, { value: { port: 1 } });
    const sound = await one.acquire(other);
    const seen = watched(two, prefix);
    for (const junk of JUNK) {
      await backend.overwriteRecord(damaged, junk);
      expect(await two.tryAcquire(damaged), junk).toBeUndefined();
      expect(await catchErrorCode(two.read(damaged)), junk).toBe("STORE_UNUSABLE");
      const found = await listed(two, prefix);
      expect(found.get(other)).toBe("one");
      expect(found.get(damaged), junk).toBe(UNREADABLE_HOLDER);
    }
    expect(await catchErrorCode(two.acquire(damaged, { waitMs: 300 }))).toBe("ACQUIRE_TIMEOUT");
    expect(await catchErrorCode(two.revoke(damaged))).toBe("STORE_UNUSABLE");
    // A process that starts now can open a session, and a watch that starts now sees the others.
    const three = await machine(backend, "three");
    const late = watched(three, prefix);
    const third = await three.acquire(`${prefix}/c`);
    for (const found of [seen, late])
      await expect
        .poll(() => [...found], { timeout: 10_000 })
        .toEqual(expect.arrayContaining([other, third.resource]));
    expect(held.check()).toBe(held.token);
    // Releasing does not depend on the record.
    await held.release();
    const next = await two.acquire(damaged, { waitMs: 10_000 });
    expect(next.token).toBeGreaterThan(held.token);
    expect((await two.read(damaged)).holder?.holderId).toBe("two");
    await sound.release();
  });

  test("S8: malformed notices do not make a renewal fail", async () => {
    const one = await machine(backend, "one");
    const resource = freshName("notices");
    const lease = await one.acquire(resource);
    const { holder } = await one.read(resource);
    await backend.addMalformedNotices(resource, holder?.sessionId ?? "");
    // Held beyond its ttl, which shows that renewals succeeded.
    const until = performance.now() + TTL_MS + 1_000;
    await expect
      .poll(() => [lease.check(), performance.now() > until], { timeout: 10_000, interval: 100 })
      .toEqual([lease.token, true]);
    await lease.release();
  });
});

describe("a PostgreSQL row with the token NaN", () => {
  const backend = useTamperedPostgres();

  test("S7, S8: a row with the token NaN is unusable, and no other resource is affected", async () => {
    const [one, two] = [await machine(backend, "one"), await machine(backend, "two")];
    const prefix = freshName("token");
    const [damaged, other] = [`${prefix}/a`, `${prefix}/b`];
    await one.acquire(damaged);
    await one.acquire(other);
    const seen = watched(two, prefix);
    await backend.sql(`UPDATE tenure.lease SET token = 'NaN' WHERE resource = '${damaged}'`);
    expect([...(await listed(two, prefix))]).toEqual([[other, "one"]]);
    expect(await two.tryAcquire(damaged)).toBeUndefined();
    expect(await catchErrorCode(two.read(damaged))).toBe("STORE_UNUSABLE");
    const third = await two.acquire(`${prefix}/c`);
    await expect.poll(() => seen.has(third.resource), { timeout: 10_000 }).toBe(true);
  });
});

describe("a Redis key that is not a record", () => {
  const backend = useTamperedRedis();
  const digits = "9".repeat(300);
  const held = `${backend.names.base}held`;
  const queueOf = (resource: string): string => `${backend.names.base}w:${resource}`;

  test.each([
    ["plain text", "junk"],
    ["an unknown state", "Z5:1:s1:a"],
    ["only a state", "H"],
    ["a truncated session", "H5:40:s"],
    ["a truncated attempt", "H5:1:s40:a"],
    ["an excessive length", `H5:${digits}:s1:a{}`],
    ["an excessive token", `F${digits}:1:s1:a`],
    ["a token above the range of Redis", "F9223372036854775807:1:s1:a"],
    ["a token of 0", "H0:1:s1:a{}"],
  ])(
    "S7, S8: a record with %s grants nothing and affects only its own resource",
    async (_, junk) => {
      const { names, command } = backend;
      const two = await machine(backend, "two");
      const prefix = freshName("key");
      const [damaged, other] = [`${prefix}/a`, `${prefix}/b`];
      const sound = await two.acquire(other);
      await command("SET", names.lease(damaged), junk);
      await command("ZADD", held, "0", names.lease(damaged));
      onTestFinished(async () => {
        await command("DEL", names.lease(damaged));
        await command("ZREM", held, names.lease(damaged));
      });
      expect(await catchErrorCode(two.tryAcquire(damaged))).toBe("STORE_UNUSABLE");
      expect(await catchErrorCode(two.acquire(damaged, { waitMs: 1_000 }))).toBe("STORE_UNUSABLE");
      expect(await catchErrorCode(two.read(damaged))).toBe("STORE_UNUSABLE");
      expect(await catchErrorCode(two.revoke(damaged))).toBe("STORE_UNUSABLE");
      expect(await command("GET", names.lease(damaged))).toBe(junk);
      expect([...(await listed(two, prefix))]).toEqual([[other, "two"]]);
      const three = await machine(backend, "three");
      const third = await three.acquire(`${prefix}/c`);
      expect(third.token).toBeGreaterThan(sound.token);
      await sound.release();
    },
  );

  test("S8: a queue that is not a sorted set prevents neither holding, releasing nor reading", async () => {
    const { command } = backend;
    const [one, two] = [await machine(backend, "one"), await machine(backend, "two")];
    const resource = freshName("queue");
    const lease = await one.acquire(resource);
    const waiting = catchErrorCode(two.acquire(resource, { waitMs: 20_000 }));
    await expect.poll(() => command("ZCARD", queueOf(resource))).toBe(1);
    await command("SET", queueOf(resource), "junk");
    onTestFinished(() => void command("DEL", queueOf(resource)));
    const three = await machine(backend, "three");
    expect(await catchErrorCode(three.acquire(resource, { waitMs: 500 }))).toBe("STORE_UNUSABLE");
    expect((await three.read(resource)).holder?.holderId).toBe("one");
    await lease.release();
    // The waiter may either be granted the resource or learn that its queue entry is gone.
    expect([undefined, "STORE_UNUSABLE"]).toContain(await waiting);
    await two.close();
    const next = await three.acquire(resource);
    expect(next.token).toBeGreaterThan(lease.token);
  });

  test("S8: a renewal succeeds despite notices that are not a set and a record that cannot be withdrawn", async () => {
    const { names, command } = backend;
    const store = await (await fromUrl(backend.url()))(systemParts());
    onTestFinished(() => store.close());
    const [resource, limitMs] = [freshName("renewal"), 5_000];
    const session = { sessionId: freshName("session"), limitMs };
    await store.openSession({ ...session, holderId: "one", ttlMs: TTL_MS });
    const wish = { ...session, resource, holderId: "one", queue: false };
    const granted = await store.grant({ ...wish, attempt: `${session.sessionId}.1` });
    await command("SET", names.lease("junk"), "junk");
    await command("SET", queueOf("junk"), "junk");
    await command("SET", names.notices(session.sessionId), "junk");
    const withdrawn = [{ resource: "junk", attempt: `${session.sessionId}.2` }];
    expect(
      await store.renew({ ...session, withdrawn, acknowledged: [{ resource: "junk", token: 1n }] }),
    ).toMatchObject({ kind: "renewed" });
    expect(
      (await store.read({ resource, consistency: "linearizable", limitMs })).holder?.token,
    ).toBe(granted.kind === "granted" ? granted.token : undefined);
    // This withdrawal finds a valid record, but a queue that is not a sorted set.
    await command("SET", queueOf(resource), "junk");
    await store.withdraw({ ...session, resource, attempt: `${session.sessionId}.1` });
    const { holder } = await store.read({ resource, consistency: "linearizable", limitMs });
    expect(holder).toBeUndefined();
    await store.endSession(session);
  });

  test("S8: junk entries in a queue are skipped", async () => {
    const { command } = backend;
    const [one, two] = [await machine(backend, "one"), await machine(backend, "two")];
    const resource = freshName("queue");
    const lease = await one.acquire(resource);
    const junk = ["junk", "", "9".repeat(40), "[]", "[1,2,3]", '["0","nobody","nothing"]'];
    for (const member of junk) await command("ZADD", queueOf(resource), "0", member);
    const waiting = two.acquire(resource, { waitMs: 10_000 });
    await expect.poll(() => lease.wanted.aborted).toBe(true);
    await lease.release();
    expect((await waiting).token).toBeGreaterThan(lease.token);
  });
});
