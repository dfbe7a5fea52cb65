// Goal: what a hostile or buggy program writes into the records of a store crashes, blocks or misleads no process; one
// malformed record concerns its own resource only (S7, S8, audit H1). Method: on every real server, a lease is held, its record
// is replaced by junk, and then everything is asked for that anybody can ask. Vitest fails on an unhandled rejection.
import { describe, expect, onTestFinished, test } from "vitest";
import { fromUrl } from "../../../src/connect.ts";
import { UNREADABLE_HOLDER } from "../../../src/core/record.ts";
import { connect, isTenureError, type Tenure } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import { freshName } from "../../support/stores/every-store.ts";
import { postgresVandal, redisVandal, type Vandal, vandals } from "../../support/stores/vandals.ts";

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

async function machine(vandal: Vandal, holderId: string): Promise<Tenure> {
  const tenure = await connect(vandal.url(), { holderId, defaults: { ttlMs: TTL_MS } });
  onTestFinished(() => tenure.close({ drainMs: 0 }));
  return tenure;
}

/** The error that a request ended with, which has to be one of ours. */
async function errorOf(request: Promise<unknown>): Promise<string | undefined> {
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

/** The resources that a watch has reported as held, until the test ends. */
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

describe.each(Object.keys(vandals))("on %s", (engine) => {
  const vandal = vandals[engine]?.() as Vandal;

  test("S7, S8: a malformed record concerns its own resource only", async () => {
    const [one, two] = [await machine(vandal, "one"), await machine(vandal, "two")];
    const prefix = freshName("record");
    const [spoiled, other] = [`${prefix}/a`, `${prefix}/b`];
    const held = await one.acquire(spoiled, { value: { port: 1 } });
    const sound = await one.acquire(other);
    const seen = watched(two, prefix);
    for (const junk of JUNK) {
      await vandal.spoilRecord(spoiled, junk);
      expect(await two.tryAcquire(spoiled), junk).toBeUndefined();
      expect(await errorOf(two.read(spoiled)), junk).toBe("STORE_UNUSABLE");
      const found = await listed(two, prefix);
      expect(found.get(other)).toBe("one");
      expect(found.get(spoiled), junk).toBe(UNREADABLE_HOLDER);
    }
    expect(await errorOf(two.acquire(spoiled, { waitMs: 300 }))).toBe("ACQUIRE_TIMEOUT");
    expect(await errorOf(two.revoke(spoiled))).toBe("STORE_UNUSABLE");
    // A process that comes now can open a session, and a watch that begins now sees the others.
    const three = await machine(vandal, "three");
    const late = watched(three, prefix);
    const third = await three.acquire(`${prefix}/c`);
    for (const found of [seen, late])
      await expect
        .poll(() => [...found], { timeout: 10_000 })
        .toEqual(expect.arrayContaining([other, third.resource]));
    expect(held.check()).toBe(held.token);
    // The holder gives back what it holds: the release does not depend on the record.
    await held.release();
    const next = await two.acquire(spoiled, { waitMs: 10_000 });
    expect(next.token).toBeGreaterThan(held.token);
    expect((await two.read(spoiled)).holder?.holderId).toBe("two");
    await sound.release();
  });

  test("S8: malformed notices do not end a renewal", async () => {
    const one = await machine(vandal, "one");
    const resource = freshName("notices");
    const lease = await one.acquire(resource);
    const { holder } = await one.read(resource);
    await vandal.spoilNotices(resource, holder?.sessionId ?? "");
    // Held beyond its ttl: the renewals of this time got through.
    const until = performance.now() + TTL_MS + 1_000;
    await expect
      .poll(() => [lease.check(), performance.now() > until], { timeout: 10_000, interval: 100 })
      .toEqual([lease.token, true]);
    await lease.release();
  });
});

describe("a PostgreSQL row whose token is NaN", () => {
  const vandal = postgresVandal();

  test("S7, S8: is unusable, and concerns its own resource only", async () => {
    const [one, two] = [await machine(vandal, "one"), await machine(vandal, "two")];
    const prefix = freshName("token");
    const [spoiled, other] = [`${prefix}/a`, `${prefix}/b`];
    await one.acquire(spoiled);
    await one.acquire(other);
    const seen = watched(two, prefix);
    await vandal.sql(`UPDATE tenure.lease SET token = 'NaN' WHERE resource = '${spoiled}'`);
    expect([...(await listed(two, prefix))]).toEqual([[other, "one"]]);
    expect(await two.tryAcquire(spoiled)).toBeUndefined();
    expect(await errorOf(two.read(spoiled))).toBe("STORE_UNUSABLE");
    const third = await two.acquire(`${prefix}/c`);
    await expect.poll(() => seen.has(third.resource), { timeout: 10_000 }).toBe(true);
  });
});

describe("a Redis key that is no record at all", () => {
  const vandal = redisVandal();
  const digits = "9".repeat(300);

  test.each([
    ["text", "junk"],
    ["a state that does not exist", "Z5:1:s1:a"],
    ["nothing but a state", "H"],
    ["a session cut off", "H5:40:s"],
    ["an attempt cut off", "H5:1:s40:a"],
    ["a length without end", `H5:${digits}:s1:a{}`],
    ["a token without end", `F${digits}:1:s1:a`],
    ["a token above those that Redis counts", "F9223372036854775807:1:s1:a"],
    ["a token of 0", "H0:1:s1:a{}"],
    ["a time without end", `Q5:1:s1:a${digits}`],
    ["a time that is no number", "Q5:1:s1:anan"],
  ])("S7, S8: %s grants nothing, and concerns its own resource only", async (_, junk) => {
    const { names, command } = vandal;
    const two = await machine(vandal, "two");
    const prefix = freshName("key");
    const [spoiled, other] = [`${prefix}/a`, `${prefix}/b`];
    const sound = await two.acquire(other);
    await command("SET", names.lease(spoiled), junk);
    await command("ZADD", names.held, "0", names.lease(spoiled));
    onTestFinished(async () => {
      await command("DEL", names.lease(spoiled));
      await command("ZREM", names.held, names.lease(spoiled));
    });
    expect(await errorOf(two.tryAcquire(spoiled))).toBe("STORE_UNUSABLE");
    expect(await errorOf(two.acquire(spoiled, { waitMs: 1_000 }))).toBe("STORE_UNUSABLE");
    expect(await errorOf(two.read(spoiled))).toBe("STORE_UNUSABLE");
    expect(await errorOf(two.revoke(spoiled))).toBe("STORE_UNUSABLE");
    expect(await command("GET", names.lease(spoiled))).toBe(junk);
    expect([...(await listed(two, prefix))]).toEqual([[other, "two"]]);
    const three = await machine(vandal, "three");
    const third = await three.acquire(`${prefix}/c`);
    expect(third.token).toBeGreaterThan(sound.token);
    await sound.release();
  });

  test("S8: a queue that is not a list keeps nobody from holding, releasing and reading", async () => {
    const { names, command } = vandal;
    const [one, two] = [await machine(vandal, "one"), await machine(vandal, "two")];
    const resource = freshName("queue");
    const lease = await one.acquire(resource);
    const waiting = errorOf(two.acquire(resource, { waitMs: 20_000 }));
    await expect.poll(() => command("LLEN", names.queue(resource))).toBe(1);
    await command("SET", names.queue(resource), "junk");
    onTestFinished(() => void command("DEL", names.queue(resource)));
    const three = await machine(vandal, "three");
    expect(await errorOf(three.acquire(resource, { waitMs: 500 }))).toBe("STORE_UNUSABLE");
    expect((await three.read(resource)).holder?.holderId).toBe("one");
    await lease.release();
    // Whoever waits may learn that its place is gone.
    expect([undefined, "STORE_UNUSABLE"]).toContain(await waiting);
    await two.close();
    const next = await three.acquire(resource);
    expect(next.token).toBeGreaterThan(lease.token);
  });

  test("S8: neither notices that are not a list nor a record that cannot be withdrawn end a renewal", async () => {
    const { names, command } = vandal;
    const store = await (await fromUrl(vandal.url()))(systemParts());
    onTestFinished(() => store.close());
    const [resource, limitMs] = [freshName("renewal"), 5_000];
    const session = { sessionId: freshName("session"), limitMs };
    await store.openSession({ ...session, holderId: "one", ttlMs: TTL_MS });
    const wish = { ...session, resource, holderId: "one", queue: false };
    const granted = await store.grant({ ...wish, attempt: `${session.sessionId}.1` });
    await command("SET", names.lease("junk"), "junk");
    await command("SET", names.queue("junk"), "junk");
    await command("SET", names.revoked(session.sessionId), "junk");
    const withdrawn = [{ resource: "junk", attempt: `${session.sessionId}.2` }];
    expect(
      await store.renew({ ...session, withdrawn, acknowledged: [{ resource: "junk", token: 1n }] }),
    ).toMatchObject({ kind: "renewed" });
    expect(
      (await store.read({ resource, consistency: "linearizable", limitMs })).holder?.token,
    ).toBe(granted.kind === "granted" ? granted.token : undefined);
    // A withdrawal of its own finds the record sound, and the queue not a list.
    await command("SET", names.queue(resource), "junk");
    await store.withdraw({ ...session, resource, attempt: `${session.sessionId}.1` });
    const { holder } = await store.read({ resource, consistency: "linearizable", limitMs });
    expect(holder).toBeUndefined();
    await store.endSession(session);
  });

  test("S8: junk in a queue is passed over", async () => {
    const { names, command } = vandal;
    const [one, two] = [await machine(vandal, "one"), await machine(vandal, "two")];
    const resource = freshName("queue");
    const lease = await one.acquire(resource);
    await command("RPUSH", names.queue(resource), "junk", "", "9".repeat(40), ":", "3:");
    const waiting = two.acquire(resource, { waitMs: 10_000 });
    await expect.poll(() => command("LLEN", names.queue(resource))).toBe(6);
    await lease.release();
    expect((await waiting).token).toBeGreaterThan(lease.token);
  });
});
