// Goal: the store keeps its guarantees when the link or the server fails. Method: a real server, a
// proxy that silently loses packets, SIGKILL and SIGSTOP; holders are complete Tenures.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect, type Tenure } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import { until } from "../../servers/ask.ts";
import { startProxy, type TcpProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../servers/zookeeper.ts";
import { expectLostRepliesHarmless, reasonOf } from "../../support/stores/lost-replies.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";
import { Console } from "../../support/stores/zookeeper-nodes.ts";

const TICK_MS = 200;
/** Bounds wide enough for two busy cores, and still a short test. */
const timing = { ttlMs: 900, clockErrorMs: 20, roundTripMs: 150, renewEveryMs: 250 };
const LIMIT_MS = 5_000;
let roots = 0;

interface Reachable {
  readonly host: string;
  readonly port: number;
}

function newRoot(): string {
  roots += 1;
  return `/faults${roots}`;
}

const hostsOf = ({ host, port }: Reachable): string => `${host}:${port}`;

async function holder(at: Reachable, root: string): Promise<Tenure> {
  const store = zookeeperStore({
    url: `zookeeper://${hostsOf(at)}`,
    prefix: root,
    tickMs: TICK_MS,
  });
  const tenure = await connect(store, { defaults: timing });
  onTestFinished(() => tenure.close({ drainMs: 0 }));
  return tenure;
}

async function opened(at: Reachable, root: string): Promise<Store> {
  const store = await zookeeperStore({
    url: `zookeeper://${hostsOf(at)}`,
    prefix: root,
    tickMs: TICK_MS,
  })(systemParts());
  onTestFinished(() => store.close());
  return store;
}

async function proxied(server: ZooKeeperServer): Promise<TcpProxy> {
  const proxy = await startProxy(server);
  onTestFinished(async () => {
    await proxy.heal();
    // A socket that is reset while it closes never emits "close", and the proxy would wait for it.
    const isQuiet = async (): Promise<boolean> => proxy.counts().open === 0;
    await until("both sides have hung up", isQuiet, 5_000).catch(() => undefined);
    await proxy[Symbol.asyncDispose]();
  });
  return proxy;
}

async function open(store: Store, sessionId: string, ttlMs: number): Promise<RecordedEvents> {
  const events = new RecordedEvents();
  const session = { sessionId, holderId: sessionId, ttlMs, limitMs: LIMIT_MS };
  await store.openSession({ ...session, events });
  return events;
}

function ask(
  store: Store,
  sessionId: string,
  options: { attempt?: string; queue?: boolean; limitMs?: number } = {},
): ReturnType<Store["grant"]> {
  const { attempt = `${sessionId}.1`, queue = false, limitMs = LIMIT_MS } = options;
  return store.grant({ sessionId, resource: "r", attempt, holderId: sessionId, queue, limitMs });
}

describe("a broken link", () => {
  const zookeeper = useServer(startZooKeeper);

  test("a grant whose reply was lost does not block the resource, and no token repeats", async () => {
    const proxy = await proxied(zookeeper());
    const root = newRoot();
    const first = await holder(proxy, root);
    const second = await holder(zookeeper(), root);
    await expectLostRepliesHarmless(proxy, first, second);
  });

  test.each(["held", "queued"])(
    "S1, S5: a queue node whose reply was lost is found again over the next connection (%s)",
    async (kind) => {
      const proxy = await proxied(zookeeper());
      const root = newRoot();
      const store = await opened(proxy, root);
      await open(store, "one", 30_000);
      const other = await opened(zookeeper(), root);
      await open(other, "two", 30_000);
      const held = kind === "queued" ? await ask(other, "two") : undefined;
      proxy.cut("replies");
      const lost = await reasonOf(ask(store, "one", { queue: true, limitMs: 300 }));
      expect(lost).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
      await using console = await Console.open(zookeeper());
      const places = (): Promise<string[]> => console.children(`${root}/leases/r`);
      const count = held === undefined ? 1 : 2;
      await until("the node exists", async () => (await places()).length === count, 5_000);
      await proxy.heal();
      let again = await ask(store, "one", { queue: true });
      expect(await places()).toHaveLength(count);
      if (held?.kind === "granted") {
        expect(again).toEqual({ kind: "queued", holderId: "two" });
        const release = { sessionId: "two", resource: "r", token: held.token, limitMs: LIMIT_MS };
        await other.release(release);
        again = await ask(store, "one", { queue: true });
      }
      if (again.kind !== "granted") throw new Error(again.kind);
      const [name] = await places();
      const { stat } = await console.read(`${root}/leases/r/${name}`);
      expect(stat.czxid).toBe(again.token);
      expect((await ask(other, "two", { attempt: "two.2" })).kind).toBe("busy");
    },
  );

  test("S5: a grant whose reply was lost can be released by the token that a read reports", async () => {
    const proxy = await proxied(zookeeper());
    const root = newRoot();
    const store = await opened(proxy, root);
    await open(store, "one", 30_000);
    const other = await opened(zookeeper(), root);
    proxy.cut("replies");
    expect(await reasonOf(ask(store, "one", { limitMs: 300 }))).toMatchObject({
      applied: "unknown",
    });
    const reading = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
    const read = async (): Promise<bigint | undefined> => (await other.read(reading)).holder?.token;
    await until("the node exists", async () => (await read()) !== undefined, 5_000);
    const token = (await read()) as bigint;
    await proxy.heal();
    const release = { sessionId: "one", resource: "r", limitMs: LIMIT_MS };
    expect(await store.release({ ...release, token: token - 1n })).toEqual({ kind: "notHeld" });
    expect(await read()).toBe(token);
    expect(await store.release({ ...release, token })).toEqual({ kind: "released" });
    expect(await read()).toBeUndefined();
    // The attempt has ended: repeating it must not revive it.
    expect(await ask(store, "one")).toEqual({ kind: "ended" });
  });

  test("S5: an attempt that is withdrawn after its reply was lost leaves nothing on the server", async () => {
    const proxy = await proxied(zookeeper());
    const root = newRoot();
    const store = await opened(proxy, root);
    await open(store, "one", 30_000);
    proxy.cut("replies");
    await reasonOf(ask(store, "one", { limitMs: 300 }));
    await proxy.heal();
    const lost = { sessionId: "one", resource: "r", attempt: "one.1", limitMs: LIMIT_MS };
    const withdrawn = [{ resource: "r", attempt: "one.1" }];
    const renewed = await store.renew({ ...lost, withdrawn, acknowledged: [] });
    expect(renewed.kind).toBe("renewed");
    await using console = await Console.open(zookeeper());
    expect(await console.children(`${root}/leases/r`)).toEqual([]);
  });

  test("L2: a waiter whose connection breaks is granted what was released while it was disconnected", async () => {
    const proxy = await proxied(zookeeper());
    const root = newRoot();
    const store = await opened(proxy, root);
    const other = await opened(zookeeper(), root);
    const one = await open(store, "one", 30_000);
    await open(other, "two", 30_000);
    const held = await ask(other, "two");
    expect((await ask(store, "one", { queue: true })).kind).toBe("queued");
    proxy.hold();
    const token = held.kind === "granted" ? held.token : 0n;
    await other.release({ sessionId: "two", resource: "r", token, limitMs: LIMIT_MS });
    proxy.reset();
    await proxy.heal();
    // No renewal is sent: the store itself connects again and reads the queue.
    expect(await one.tokenOf("one.1")).toBeGreaterThan(token);
  });

  test("every request of a session that expired while disconnected reports that the session is gone", async () => {
    const proxy = await proxied(zookeeper());
    const root = newRoot();
    const store = await opened(proxy, root);
    const other = await opened(zookeeper(), root);
    await open(store, "one", 900);
    await open(other, "two", 30_000);
    const granted = await ask(store, "one");
    proxy.refuse();
    proxy.reset();
    const session = { sessionId: "one", limitMs: 500 };
    const away = await reasonOf(store.renew({ ...session, withdrawn: [], acknowledged: [] }));
    expect(away).toMatchObject({ code: "STORE_UNAVAILABLE" });
    let tries = 0;
    const isFree = async (): Promise<boolean> => {
      tries += 1;
      return (await ask(other, "two", { attempt: `two.${tries}` })).kind === "granted";
    };
    await until("the session has expired", isFree, 10_000);
    await proxy.heal();
    const late = { ...session, limitMs: LIMIT_MS };
    const token = granted.kind === "granted" ? granted.token : 0n;
    expect((await store.release({ ...late, resource: "r", token })).kind).toBe("notHeld");
    expect((await store.renew({ ...late, withdrawn: [], acknowledged: [] })).kind).toBe("gone");
    expect((await ask(store, "one", { attempt: "one.2" })).kind).toBe("gone");
  });

  test("a watch continues over a broken connection and misses nothing that is still true", async () => {
    const proxy = await proxied(zookeeper());
    const root = newRoot();
    const watcher = await opened(proxy, root);
    const store = await opened(zookeeper(), root);
    await open(store, "one", 30_000);
    const stop = new AbortController();
    onTestFinished(() => stop.abort());
    const views: string[] = [];
    const watching = (async () => {
      for await (const view of watcher.watch({ prefix: "r", signal: stop.signal }))
        views.push(`${view.resource} ${view.holder?.holderId ?? "free"}`);
    })();
    const first = await ask(store, "one");
    await until("the grant is reported", async () => views.length === 1, 5_000);
    proxy.refuse();
    proxy.reset();
    const token = first.kind === "granted" ? first.token : 0n;
    await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
    await sleep(100);
    await proxy.heal();
    await until("the release is reported", async () => views.length === 2, 10_000);
    await ask(store, "one", { attempt: "one.2" });
    await until("the next grant is reported", async () => views.length === 3, 5_000);
    expect(views).toEqual(["r one", "r free", "r one"]);
    stop.abort();
    await watching;
  });
});

describe("a server that fails", () => {
  const zookeeper = useServer(startZooKeeper, { tickTimeMs: TICK_MS });

  test("S7: a request to a frozen server fails with an unknown outcome within its limit, and the server is used again later", async () => {
    const store = await opened(zookeeper(), newRoot());
    await open(store, "one", 30_000);
    const session = { sessionId: "one", limitMs: 200 };
    await zookeeper().pause();
    try {
      const stopwatch = startStopwatch();
      const error = await reasonOf(store.renew({ ...session, withdrawn: [], acknowledged: [] }));
      expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
      expect(stopwatch.elapsedMs()).toBeLessThan(1_000);
    } finally {
      await zookeeper().resume();
    }
    const renewed = async (): Promise<boolean> =>
      (await store.renew({ ...session, withdrawn: [], acknowledged: [] }).catch(() => undefined))
        ?.kind === "renewed";
    await until("renewals work again", renewed, 10_000);
  });

  test("S3, S7: if the server is frozen for longer than the ttl, the holder stops, and the next token is larger", async () => {
    const root = newRoot();
    const first = await holder(zookeeper(), root);
    const second = await holder(zookeeper(), root);
    const lease = await first.acquire("r");
    await zookeeper().pause();
    await sleep(timing.ttlMs + 400);
    expect(() => lease.check()).toThrow(/lost/);
    await zookeeper().resume();
    const next = await second.acquire("r", { waitMs: 15_000 });
    expect(next.token).toBeGreaterThan(lease.token);
  });

  test("S1: tokens keep increasing after SIGKILL and restart, for old and new processes", async () => {
    const root = newRoot();
    const tenure = await holder(zookeeper(), root);
    expect(tenure.guarantees.durable).toBe(true);
    let before = 0n;
    for (let round = 0; round < 3; round += 1) {
      const lease = await tenure.acquire("r", { waitMs: 15_000 });
      expect(lease.token).toBeGreaterThan(before);
      before = lease.token;
      await zookeeper().kill();
      await zookeeper().start();
      await lease.release().catch(() => undefined);
    }
    const fresh = await (await holder(zookeeper(), root)).acquire("r", { waitMs: 15_000 });
    expect(fresh.token).toBeGreaterThan(before);
  });
});
