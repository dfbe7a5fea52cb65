// Goal: grants and releases that are sent together are decided and answered as if sent alone.
// Method: a real server, a user's client that counts what it sends, a proxy that drops replies, and
// a frozen replica.
import { Redis } from "ioredis";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { startProxy } from "../../servers/proxy.ts";
import { startRedis, startRedisPair } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { reasonOf } from "../../support/stores/lost-replies.ts";

const redis = useServer(startRedis, { own: true });
const LIMIT_MS = 5_000;
let prefixes = 0;

interface World {
  readonly store: Store;
  readonly base: string;
  sent(): number;
  /** One more request of the same turn. */
  occupy(): ReturnType<Store["grant"]>;
  grant(resource: string, more?: object): ReturnType<Store["grant"]>;
  release(resource: string, token: bigint, sessionId?: string): ReturnType<Store["release"]>;
}

async function openWorld(options: { url?: string; replicas?: number } = {}): Promise<World> {
  prefixes += 1;
  const prefix = `bundles${prefixes}`;
  const client = new Redis(options.url ?? redis().url);
  onTestFinished(() => client.disconnect());
  let sent = 0;
  const call = client.call.bind(client) as (...words: string[]) => Promise<unknown>;
  client.call = ((...words: string[]) => {
    sent += 1;
    return call(...words);
  }) as typeof client.call;
  const { replicas = 0 } = options;
  const store = await redisStore({ client, prefix, replicas })(systemParts());
  onTestFinished(() => store.close());
  for (const sessionId of ["one", "two"]) await open(store, sessionId);
  await loadScript(store);
  let attempts = 0;
  const grant: World["grant"] = (resource, more) => {
    attempts += 1;
    const attempt = `attempt ${attempts}`;
    const one = { sessionId: "one", holderId: "one", queue: false, limitMs: LIMIT_MS };
    return store.grant({ ...one, resource, attempt, ...more });
  };
  return {
    store,
    base: `{${prefix}}:`,
    sent: () => sent,
    grant,
    occupy: () => grant("another"),
    release: (resource, token, sessionId = "one") =>
      store.release({ sessionId, resource, token, limitMs: LIMIT_MS }),
  };
}

/** Loads the script: a server process that does not have it costs one more command, once. */
async function loadScript(store: Store): Promise<void> {
  const absent = { sessionId: "absent", resource: "first", token: 1n, limitMs: LIMIT_MS };
  expect(await store.release(absent)).toEqual({ kind: "notHeld" });
}

async function open(store: Store, sessionId: string): Promise<void> {
  await store.openSession({ sessionId, holderId: sessionId, ttlMs: 60_000, limitMs: LIMIT_MS });
}

async function requireToken(granting: ReturnType<Store["grant"]>): Promise<bigint> {
  const outcome = await granting;
  if (outcome.kind !== "granted") throw new Error(outcome.kind);
  return outcome.token;
}

async function readHolder(store: Store, resource: string): Promise<string | undefined> {
  const read = { resource, consistency: "linearizable", limitMs: LIMIT_MS } as const;
  return (await store.read(read)).holder?.sessionId;
}

/** A store on a client that the test may change. The server does not have the grant script yet. */
async function openFresh(
  name: string,
  url: string = redis().url,
): Promise<{ client: Redis; store: Store }> {
  const client = new Redis(url);
  onTestFinished(() => client.disconnect());
  const store = await redisStore({ client, prefix: name.replace(" ", "-") })(systemParts());
  onTestFinished(() => store.close());
  await open(store, "one");
  return { client, store };
}

function requestGrant(store: Store, resource: string): ReturnType<Store["grant"]> {
  const one = { sessionId: "one", holderId: "one", queue: false, limitMs: LIMIT_MS };
  return store.grant({ ...one, resource, attempt: resource });
}

describe("requests made in one turn", () => {
  test("forty-nine grants take few calls, of at most sixteen grants each, and each grant gets its own token", async () => {
    const { store, grant, release, sent } = await openWorld();
    await store.list({ prefix: "", limit: 1, limitMs: LIMIT_MS });
    const before = sent();
    const names = Array.from({ length: 49 }, (_, index) => `r${index}`);
    const tokens = await Promise.all(names.map((name) => requireToken(grant(name))));
    expect(sent() - before).toBe(4);
    expect(new Set(tokens).size).toBe(names.length);
    const page = await store.list({ prefix: "r", limit: 100, limitMs: LIMIT_MS });
    expect(page.leases.map(({ resource, holder }) => [resource, holder?.token]).sort()).toEqual(
      names.map((name, index) => [name, tokens[index]]).sort(),
    );
    const released = await Promise.all(
      names.map((name, index) => release(name, tokens[index] ?? 0n)),
    );
    expect(released.every(({ kind }) => kind === "released")).toBe(true);
    expect(sent() - before).toBe(8 + 1);
    const rest = await store.list({ prefix: "", limit: 100, limitMs: LIMIT_MS });
    expect(rest.leases).toEqual([]);
  });

  test("S4, S5: each request is decided separately, whatever the outcome of the others", async () => {
    const { store, base, grant, release, occupy, sent } = await openWorld();
    const mine = await requireToken(grant("mine"));
    const kept = await requireToken(grant("kept"));
    await grant("theirs", { sessionId: "two", holderId: "two" });
    const before = sent();
    const [, ...outcomes] = await Promise.all([
      occupy(),
      grant("free"),
      grant("theirs"),
      grant("free too"),
      release("mine", mine),
      release("kept", kept + 1n),
      release("theirs", 1n),
    ]);
    expect(sent() - before).toBe(1);
    expect(outcomes).toMatchObject([
      { kind: "granted" },
      { kind: "busy", holderId: "two" },
      { kind: "granted" },
      { kind: "released" },
      { kind: "notHeld" },
      { kind: "notHeld" },
    ]);
    expect(await readHolder(store, "mine")).toBeUndefined();
    expect(await readHolder(store, "kept")).toBe("one");
    expect(await readHolder(store, "theirs")).toBe("two");
    await redis().command("DEL", `${base}s:one`);
    const late = await Promise.all([occupy(), grant("a"), grant("b"), release("kept", kept)]);
    expect(late.map(({ kind }) => kind)).toEqual(["gone", "gone", "gone", "notHeld"]);
  });

  test("S4: of two grants of one lease, the first is granted and the second is busy", async () => {
    const { grant, occupy } = await openWorld();
    const [, first, second] = await Promise.all([occupy(), grant("r"), grant("r")]);
    expect(first).toMatchObject({ kind: "granted" });
    expect(second).toEqual({ kind: "busy", holderId: "one" });
  });

  test("S4: each request is judged by its own session, whether or not the sessions of the others are alive", async () => {
    const { store, base, grant, release, occupy } = await openWorld();
    const two = { sessionId: "two", holderId: "two" };
    const token = await requireToken(grant("held", two));
    await redis().command("DEL", `${base}s:two`);
    const [, one, dead, late] = await Promise.all([
      occupy(),
      grant("a"),
      grant("b", two),
      release("held", token, "two"),
    ]);
    expect([one?.kind, dead?.kind, late?.kind]).toEqual(["granted", "gone", "notHeld"]);
    expect(await readHolder(store, "b")).toBeUndefined();
  });

  test("an exception in the client fails the requests of that call and no others", async () => {
    const { client, store } = await openFresh("throws");
    await loadScript(store);
    const call = client.call.bind(client) as (...words: string[]) => Promise<unknown>;
    const throws = vi
      .fn(call)
      .mockImplementationOnce(call)
      .mockImplementation(() => {
        throw new Error("out of order");
      });
    client.call = throws as unknown as typeof client.call;
    expect(await requestGrant(store, "a")).toMatchObject({ kind: "granted" });
    const rest = await Promise.allSettled(["b", "c"].map((name) => requestGrant(store, name)));
    for (const failed of rest)
      expect(failed).toMatchObject({ reason: { code: "STORE_UNAVAILABLE" } });
    expect(throws).toHaveBeenCalledTimes(2);
  });

  test("an exception in the client while a script is loaded fails the request", async () => {
    const { client, store } = await openFresh("throws late");
    const call = client.call.bind(client) as (...words: string[]) => Promise<unknown>;
    client.call = ((command: string, ...words: string[]) => {
      if (command.toLowerCase() === "eval") throw new Error("out of order");
      return call(command, ...words);
    }) as typeof client.call;
    await expect(requestGrant(store, "r")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    client.call = call as typeof client.call;
    expect(await requestGrant(store, "r")).toMatchObject({ kind: "granted" });
  });

  test("only requests with `queue` set get a queue entry", async () => {
    const { base, grant, occupy } = await openWorld();
    const two = { sessionId: "two", holderId: "two" };
    for (const name of ["a", "b"]) await grant(name, two);
    await Promise.all([occupy(), grant("a"), grant("free"), grant("b", { queue: true })]);
    expect(await redis().command("ZCARD", `${base}w:a`)).toBe(0);
    expect(await redis().command("ZCARD", `${base}w:b`)).toBe(1);
  });

  test("an error of one request does not affect the answers to the others", async () => {
    const { base, grant, occupy } = await openWorld();
    const two = { sessionId: "two", holderId: "two" };
    await grant("broken", two);
    await redis().command("SET", `${base}w:broken`, "no queue");
    const asked = [grant("a"), grant("broken", { queue: true }), grant("b")];
    const [, a, broken, b] = await Promise.allSettled([occupy(), ...asked]);
    expect(a).toMatchObject({ status: "fulfilled", value: { kind: "granted" } });
    expect(b).toMatchObject({ status: "fulfilled", value: { kind: "granted" } });
    expect(broken).toMatchObject({ status: "rejected", reason: { code: "STORE_UNUSABLE" } });
    expect(String((broken as PromiseRejectedResult).reason)).toContain("WRONGTYPE");
  });

  test("S1: repeated attempts get the same tokens", async () => {
    const { grant, occupy } = await openWorld();
    const ask = (): Promise<unknown> =>
      Promise.all(["x", "y"].map((attempt) => grant(`r ${attempt}`, { attempt })));
    const [, first] = await Promise.all([occupy(), ask()]);
    const [, again] = await Promise.all([occupy(), ask()]);
    expect(again).toEqual(first);
  });

  test("a grant takes effect before a withdrawal that is requested after it", async () => {
    const { store, grant, occupy } = await openWorld();
    const attempt = "given up at once";
    const request = { sessionId: "one", resource: "r", attempt, limitMs: LIMIT_MS };
    const [, granted] = await Promise.all([
      occupy(),
      grant("r", { attempt }),
      store.withdraw(request),
    ]);
    expect(granted).toMatchObject({ kind: "granted" });
    expect(await readHolder(store, "r")).toBeUndefined();
  });

  test("S7: if the reply to a batch is lost, the outcome of each of its requests is unknown within its limit", async () => {
    const proxy = await startProxy(redis());
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    const { store, grant, occupy } = await openWorld({ url: proxy.url });
    const [, held] = await Promise.all([occupy(), requireToken(grant("held"))]);
    proxy.cut("replies");
    const limitMs = 300;
    const first = grant("first", { limitMs });
    const rest = ["a", "b", "c"].map((name) => grant(name, { limitMs }));
    const release = store.release({ sessionId: "one", resource: "held", token: held, limitMs });
    for (const asked of [first, ...rest, release])
      expect(await reasonOf(asked)).toMatchObject({
        code: "STORE_UNAVAILABLE",
        applied: "unknown",
      });
    await proxy.heal();
  });
});

test("each request keeps its own limit, and an answer that comes too late is ignored", async () => {
  const proxy = await startProxy(redis());
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const { grant, occupy, sent } = await openWorld({ url: proxy.url });
  proxy.hold("replies");
  const occupied = occupy();
  const patient = grant("patient");
  const impatient = await reasonOf(grant("impatient", { limitMs: 100 }));
  expect(impatient).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
  await proxy.heal();
  expect((await Promise.all([occupied, patient])).map(({ kind }) => kind)).toEqual([
    "granted",
    "granted",
  ]);
  const before = sent();
  expect(await grant("after it")).toMatchObject({ kind: "granted" });
  expect(sent()).toBe(before + 1);
});

test("S7: a grant whose limit has passed when the server asks for the script is not sent again", async () => {
  const proxy = await startProxy(redis());
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const { client, store } = await openFresh("late", proxy.url);
  proxy.hold("replies");
  const one = { sessionId: "one", holderId: "one", resource: "r", attempt: "late", queue: false };
  const reason = await reasonOf(store.grant({ ...one, limitMs: 100 }));
  expect(reason).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
  await proxy.heal();
  // Two answers on the same connection: a request sent after the first was handled before the
  // second.
  for (let round = 0; round < 2; round += 1) await client.ping();
  expect(await redis().command("EXISTS", "{late}:r:r")).toBe(0);
});

test("with `replicas`, a release does not wait for grants of the same turn to be confirmed", async () => {
  const pair = await startRedisPair({ own: true });
  onTestFinished(() => pair[Symbol.asyncDispose]());
  const { store, grant } = await openWorld({ url: pair.master.url, replicas: 1 });
  const token = await requireToken(grant("mine"));
  const mine = { sessionId: "one", resource: "mine", token };
  await pair.replica.pause();
  try {
    const order: string[] = [];
    const note = (what: string) => (): void => void order.push(what);
    await Promise.allSettled([
      grant("a", { limitMs: 1_000 }).catch(note("a")),
      grant("b", { limitMs: 1_000 }).catch(note("b")),
      store.release({ ...mine, limitMs: 1_000 }).then(note("released")),
    ]);
    expect(order).toEqual(["released", "a", "b"]);
  } finally {
    await pair.replica.resume();
  }
});
