// Goal: only the right sessions are notified, once, and a lost notification costs at most one
// renewal. Method: a real server whose messages are read by another client.
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { sha1Hex, sign } from "../../../src/clients/redis/digest.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { LeaseRef, Store } from "../../../src/stores/contract.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { until } from "../../servers/ask.ts";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { collectMessages, LIMIT_MS, redisWorld } from "../../support/stores/redis-world.ts";
import type { RecordedEvents } from "../../support/stores/session-events.ts";

const redis = useServer(startRedis, { own: true });
const { opened, session, take, queue } = redisWorld(redis, "notices");

test("one message per handoff: of many waiters, only the granted one is notified", async () => {
  const { store, base } = await opened();
  const names = ["a", "b", "c", "d", "e", "f"];
  await session(store, "one");
  const reports = new Map<string, RecordedEvents>();
  for (const name of names) reports.set(name, await session(store, name));
  let token = await take(store, "one", "r");
  for (const name of names) await queue(store, name, "r");
  await redis().command("DEL", `${base}s:b`);
  const received = await collectMessages(redis(), base);
  for (const [from, to] of [
    ["one", "a"],
    ["a", "c"],
    ["c", "d"],
  ] as const) {
    await store.release({ sessionId: from, resource: "r", token, limitMs: LIMIT_MS });
    const { grants = [] } = reports.get(to) ?? {};
    await until(`${to} is notified`, async () => grants.length === 1, LIMIT_MS);
    token = grants[0]?.token ?? 0n;
  }
  expect(received.map((text) => text.split('"').slice(1, 4).join(""))).toEqual([
    "granted,a",
    "granted,c",
    "granted,d",
  ]);
  for (const name of ["b", "e", "f"]) expect(reports.get(name)?.grants).toEqual([]);
});

test("the holder is notified once that its lease is wanted, and at once that it is revoked", async () => {
  const { store, base } = await opened();
  const one = await session(store, "one");
  for (const id of ["two", "three"]) await session(store, id);
  const token = await take(store, "one", "r");
  const received = await collectMessages(redis(), base);
  await queue(store, "two", "r");
  await queue(store, "three", "r");
  await store.revoke({ resource: "r", token, limitMs: LIMIT_MS });
  await until("the holder is notified", async () => one.losses.length === 1, LIMIT_MS);
  expect(one).toMatchObject({
    wishes: [{ resource: "r", token }],
    losses: [{ resource: "r", token }],
  });
  const kinds = received.map((text) => text.split('"')[1]);
  expect(kinds).toEqual(["wanted", "lost", "granted"]);
});

test("L2: a lost notification is repeated by renewals until it is accepted or has ended", async () => {
  const { store } = await opened();
  await session(store, "one");
  // Without events it learns of nothing between renewals.
  const two = { sessionId: "two", holderId: "two", limitMs: LIMIT_MS };
  await store.openSession({ ...two, ttlMs: 60_000 });
  const token = await take(store, "one", "r");
  await queue(store, "two", "r");
  const renew = (accepted: readonly LeaseRef[] = []): ReturnType<Store["renew"]> =>
    store.renew({ ...two, withdrawn: [], acknowledged: [], accepted });
  expect(await renew()).toMatchObject({ waiting: 1, granted: [] });
  await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
  const reported = await renew();
  if (reported.kind !== "renewed") throw new Error(reported.kind);
  const [grant] = reported.granted ?? [];
  expect(grant).toMatchObject({ resource: "r", attempt: "two.queued" });
  expect(await renew()).toMatchObject({ waiting: 0, granted: [grant] });
  await renew(grant === undefined ? [] : [{ ...grant, token: grant.token + 1n }]);
  expect(await renew()).toMatchObject({ granted: [grant] });
  expect(await renew(grant === undefined ? [] : [grant])).toMatchObject({ granted: [] });
});

test("L1: a waiter is granted the lease of an expired session without asking again", async () => {
  const { store } = await opened();
  await session(store, "dead", 300);
  const two = await session(store, "two");
  await take(store, "dead", "r");
  await queue(store, "two", "r");
  await until("the waiter is notified", async () => two.grants.length === 1, LIMIT_MS);
});

test("S8: malformed and forged messages, and facts about other sessions, are ignored", async () => {
  const { store, base } = await opened();
  const two = await session(store, "two");
  await session(store, "one");
  const token = await take(store, "one", "r");
  await queue(store, "two", "r");
  const [channel = ""] = (await redis().command("PUBSUB", "CHANNELS", `${base}f:*`)) as string[];
  const hostile = ["", "junk", "null", "{}", "[]", "[1,2,3,4]", '["granted","two","r","-1","x"]'];
  hostile.push('["granted","nobody","r","5","x"]', '["lost","two"]', "[".repeat(100_000));
  // Well-formed, but not signed with the secret of the process.
  const forged = JSON.stringify(["granted", "two", "r", `${token + 9n}`, "two.queued"]);
  hostile.push(forged, sha1Hex(forged) + forged, sign("", forged) + forged);
  for (const text of hostile) await redis().command("PUBLISH", channel, text);
  await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
  await until("the waiter is notified", async () => two.grants.length > 0, LIMIT_MS);
  expect(two).toMatchObject({ grants: [{ attempt: "two.queued" }], losses: [], wishes: [] });
});

test("L2: a request that may be queued is sent after the subscription", async () => {
  const { store, prefix, base } = await opened();
  await session(store, "one");
  await take(store, "one", "r");
  const client = new Redis(redis().url);
  onTestFinished(() => client.disconnect());
  const duplicate = client.duplicate.bind(client);
  let openGate: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    openGate = resolve;
  });
  client.duplicate = (override) => {
    const copy = duplicate(override);
    const connect = copy.connect.bind(copy);
    copy.connect = () => gate.then(() => connect());
    return copy;
  };
  const other = await redisStore({ client, prefix })(systemParts());
  onTestFinished(() => other.close());
  await session(other, "two");
  const queued = queue(other, "two", "r");
  // Two answers on the same connection: the request would have arrived before them.
  for (let round = 0; round < 2; round += 1) await client.ping();
  expect(await redis().command("ZCARD", `${base}w:r`)).toBe(0);
  openGate();
  await queued;
  expect(await redis().command("PUBSUB", "CHANNELS", `${base}f:*`)).toHaveLength(2);
});

test("a waiter whose queue entry was deleted by hand has it again after a renewal", async () => {
  const { store, base } = await opened();
  for (const id of ["one", "two"]) await session(store, id);
  const token = await take(store, "one", "r");
  await queue(store, "two", "r");
  await redis().command("DEL", `${base}w:r`);
  await store.renew({ sessionId: "two", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS });
  expect(await redis().command("ZCARD", `${base}w:r`)).toBe(1);
  await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
  const read = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
  expect((await store.read(read)).holder?.sessionId).toBe("two");
});

test("L2: a waiter that was quiet when a newcomer was granted the resource is served after it", async () => {
  const { store } = await opened();
  await session(store, "one");
  const two = { sessionId: "two", holderId: "two", limitMs: LIMIT_MS };
  await store.openSession({ ...two, ttlMs: 60_000, quietAfterMs: 1_000 });
  const first = await take(store, "one", "r");
  await queue(store, "two", "r");
  await sleep(1_100);
  await store.release({ sessionId: "one", resource: "r", token: first, limitMs: LIMIT_MS });
  const token = await take(store, "one", "r");
  await store.renew({ ...two, withdrawn: [], acknowledged: [] });
  await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
  const read = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
  expect((await store.read(read)).holder?.sessionId).toBe("two");
});
