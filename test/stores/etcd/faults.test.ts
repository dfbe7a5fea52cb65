// Goal: the store keeps its guarantees when the link or the server fails. Method: a real etcd, a
// proxy that silently loses packets, SIGKILL, SIGSTOP, and a compaction during a wait; holders are
// complete Tenures.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Store } from "../../../src/stores/contract.ts";
import { until } from "../../servers/ask.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { useServer } from "../../servers/use-server.ts";
import {
  at,
  holdAndQueue,
  holder,
  newPrefix,
  opened,
  proxied,
} from "../../support/stores/etcd-holders.ts";
import { expectLostRepliesHarmless, reasonOf } from "../../support/stores/lost-replies.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";

const etcd = useServer(startEtcd, { fastElections: true });

describe("a broken link", () => {
  test("a grant whose reply was lost does not block the resource, and no token repeats", async () => {
    const proxy = await proxied(etcd());
    const prefix = newPrefix();
    const first = await holder({ url: `etcd://${at(proxy)}`, prefix });
    const second = await holder({ url: `etcd://${at(etcd())}`, prefix }, {});
    await expectLostRepliesHarmless(proxy, first, second);
  });

  test.each(["hold", "cut"] as const)(
    "S5: a copy of a grant request that arrives after its attempt was granted and released takes nothing (fault: %s)",
    async (fault) => {
      const proxy = await proxied(etcd());
      const prefix = newPrefix();
      const slow = await opened({ url: `etcd://${at(proxy)}`, prefix });
      const session = { sessionId: "one", limitMs: 5_000 };
      await slow.openSession({ ...session, holderId: "one", ttlMs: 60_000 });
      const ask = { ...session, resource: "r", attempt: "one.1", holderId: "one", queue: false };
      // The request times out and its connection is dropped. With "hold" it still arrives later.
      proxy[fault]("requests");
      const late = await reasonOf(slow.grant({ ...ask, limitMs: 300 }));
      expect(late).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
      await proxy.heal();
      const granted = await slow.grant(ask);
      if (granted.kind !== "granted") throw new Error(granted.kind);
      const { token } = granted;
      const release = { ...session, resource: "r", token };
      expect(await slow.release(release)).toEqual({ kind: "released" });
      expect(await slow.grant(ask)).toEqual({ kind: "ended" });
      // An exact copy of the first request, from a store that does not know about the others.
      const copy = await opened({ url: `etcd://${at(etcd())}`, prefix });
      expect(await copy.grant(ask)).toEqual({ kind: "ended" });
      const question = { resource: "r", consistency: "linearizable", limitMs: 5_000 } as const;
      expect((await copy.read(question)).holder).toBeUndefined();
    },
  );

  test("a connection on which no reply arrives is dropped after one request", async () => {
    const proxy = await proxied(etcd());
    const store = await opened({ url: `etcd://${at(proxy)}`, prefix: newPrefix() });
    const { connections } = proxy.counts();
    proxy.cut();
    for (let request = 1; request <= 2; request += 1) {
      const question = { resource: "r", consistency: "linearizable", limitMs: 200 } as const;
      await reasonOf(store.read(question));
    }
    const isAnew = async (): Promise<boolean> => proxy.counts().connections > connections;
    await until("a new connection was made", isAnew, 1_000);
  });

  test("S5: a late copy of a withdrawn attempt whose outcome was unknown is not granted", async () => {
    const proxy = await proxied(etcd());
    const prefix = newPrefix();
    const slow = await opened({ url: `etcd://${at(proxy)}`, prefix });
    const session = { sessionId: "one", limitMs: 5_000 };
    await slow.openSession({ ...session, holderId: "one", ttlMs: 60_000 });
    const ask = { ...session, resource: "r", attempt: "one.1", holderId: "one", queue: true };
    proxy.cut("requests");
    await reasonOf(slow.grant({ ...ask, limitMs: 200 }));
    await proxy.heal();
    await slow.withdraw(ask);
    const copy = await opened({ url: `etcd://${at(etcd())}`, prefix });
    expect(await copy.grant(ask)).toEqual({ kind: "ended" });
  });

  test.each(["while the link is down", "after it is restored"])(
    "L2: a waiter whose connection is reset is woken by a release %s",
    async (when) => {
      const prefix = newPrefix();
      const proxy = await proxied(etcd());
      const store = await opened({ url: `etcd://${at(etcd())}`, prefix });
      const waiter = await opened({ url: `etcd://${at(proxy)}`, prefix });
      const { handoff, release } = await holdAndQueue(store, waiter);
      await sleep(200);
      proxy.refuse();
      proxy.reset();
      // Nothing receives this release; only a watch that starts at the old revision finds it.
      if (when === "while the link is down") await release();
      await proxy.heal();
      if (when !== "while the link is down") {
        await sleep(300);
        await release();
      }
      const stopwatch = startStopwatch();
      await handoff;
      expect(stopwatch.elapsedMs()).toBeLessThan(3_000);
    },
  );

  test("a watcher without a session notices a silent link by itself, and misses nothing", async () => {
    const prefix = newPrefix();
    const proxy = await proxied(etcd());
    const store = await opened({ url: `etcd://${at(etcd())}`, prefix });
    const watcher = await opened({ url: `etcd://${at(proxy)}`, prefix });
    const { release } = await holdAndQueue(store);
    const stop = new AbortController();
    const seen: (string | undefined)[] = [];
    const watching = (async () => {
      for await (const view of watcher.watch({ prefix: "", signal: stop.signal }))
        seen.push(view.holder?.sessionId);
    })();
    await until("the watch has begun", async () => seen.length === 1, 5_000);
    const { connections } = proxy.counts();
    proxy.cut();
    await release();
    const isAnew = async (): Promise<boolean> => proxy.counts().connections > connections;
    await until("a new connection is tried", isAnew, 15_000);
    await proxy.heal();
    await until("the handoff is seen", async () => seen.length === 2, 10_000);
    stop.abort();
    await watching;
    expect(seen).toEqual(["one", "two"]);
  }, 40_000);
});

describe("a repeated request whose first copy succeeded but whose reply was lost", () => {
  const limitMs = 3_000;
  const session = { sessionId: "one", limitMs };
  const ask = { ...session, resource: "r", attempt: "one.1", holderId: "one", queue: false };

  /**
   * A store that tries the proxy first and then the server directly. From now on the proxy drops
   * all replies.
   */
  async function openLosingReplies(
    prepare: (store: Store) => Promise<void>,
    prefix: string = newPrefix(),
  ): Promise<Store> {
    const proxy = await proxied(etcd());
    const store = await opened({ url: `etcd://${[at(proxy), at(etcd())]}`, prefix });
    await prepare(store);
    proxy.cut("replies");
    return store;
  }
  const openSession = async (store: Store): Promise<void> => {
    await store.openSession({ ...session, holderId: "one", ttlMs: 60_000 });
  };
  const holding = async (store: Store): Promise<bigint> => {
    await openSession(store);
    const granted = await store.grant(ask);
    return granted.kind === "granted" ? granted.token : 0n;
  };

  test("a repeated openSession finds the session open, with the ttl that was granted", async () => {
    const store = await openLosingReplies(async () => undefined);
    const opening = store.openSession({ ...session, holderId: "one", ttlMs: 60_000 });
    expect(await opening).toEqual({ ttlMs: 60_000 });
    expect((await store.renew({ ...session, withdrawn: [], acknowledged: [] })).kind).toBe(
      "renewed",
    );
  });

  test("S1: a repeated grant returns the token of the first copy, and is not granted again after its release", async () => {
    const prefix = newPrefix();
    const store = await openLosingReplies(openSession, prefix);
    const granted = await store.grant(ask);
    const question = { resource: "r", consistency: "linearizable", limitMs } as const;
    const { holder: seen } = await store.read(question);
    expect(granted).toEqual({ kind: "granted", token: seen?.token });
    expect(await store.grant(ask)).toEqual(granted);
    await store.release({ ...session, resource: "r", token: seen?.token ?? 0n });
    // A third copy, from a store that does not know about the others.
    const copy = await opened({ url: `etcd://${at(etcd())}`, prefix });
    expect(await copy.grant(ask)).toEqual({ kind: "ended" });
  });

  test("S5: a repeated grant that was busy stays busy, and no copy of it is granted later", async () => {
    const prefix = newPrefix();
    let token = 0n;
    const store = await openLosingReplies(async (opening) => {
      token = await holding(opening);
    }, prefix);
    const second = { ...ask, attempt: "one.2" };
    expect((await store.grant(second)).kind).toBe("busy");
    await store.release({ ...session, resource: "r", token });
    const copy = await opened({ url: `etcd://${at(etcd())}`, prefix });
    expect(await copy.grant(second)).toEqual({ kind: "ended" });
  });

  test("a repeated queued grant keeps its position, and its turn comes when the holder releases", async () => {
    let token = 0n;
    const store = await openLosingReplies(async (opening) => {
      token = await holding(opening);
    });
    const second = { ...ask, attempt: "one.2", queue: true };
    expect((await store.grant(second)).kind).toBe("queued");
    await store.release({ ...session, resource: "r", token });
    expect((await store.grant(second)).kind).toBe("granted");
  });

  test("a repeated release reports released rather than notHeld", async () => {
    let token = 0n;
    const store = await openLosingReplies(async (opening) => {
      token = await holding(opening);
    });
    const request = { ...session, resource: "r", token };
    expect(await store.release(request)).toEqual({ kind: "released" });
    expect(await store.release(request)).toEqual({ kind: "notHeld" });
  });

  test("a repeated renewal succeeds", async () => {
    const store = await openLosingReplies(openSession);
    const outcome = await store.renew({ ...session, withdrawn: [], acknowledged: [] });
    expect(outcome).toMatchObject({ kind: "renewed", ttlMs: 60_000, gone: [] });
  });

  test("a repeated end of a session succeeds", async () => {
    const store = await openLosingReplies(openSession);
    await store.endSession(session);
    expect((await store.grant(ask)).kind).toBe("gone");
  });
});

describe("a server that fails", () => {
  test("S7: a request to a frozen server fails with an unknown outcome within its limit, and the server is used again later", async () => {
    const store = await opened({ url: `etcd://${at(etcd())}`, prefix: newPrefix() });
    const session = { sessionId: "one", limitMs: 200 };
    await store.openSession({ ...session, limitMs: 5_000, holderId: "one", ttlMs: 60_000 });
    await etcd().pause();
    try {
      const stopwatch = startStopwatch();
      const requests = [
        store.renew({ ...session, withdrawn: [], acknowledged: [] }),
        store.grant({ ...session, resource: "r", attempt: "one.1", holderId: "one", queue: false }),
        store.read({ resource: "r", consistency: "linearizable", limitMs: 200 }),
      ];
      for (const error of await Promise.all(requests.map(reasonOf)))
        expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
      expect(stopwatch.elapsedMs()).toBeLessThan(1_000);
    } finally {
      await etcd().resume();
    }
    const renewed = async (): Promise<boolean> =>
      (await store.renew({ ...session, withdrawn: [], acknowledged: [] }).catch(() => undefined))
        ?.kind === "renewed";
    await until("renewals work again", renewed, 10_000);
  });

  test("S1: tokens keep increasing after SIGKILL and restart, for old and new processes", async () => {
    const options = { url: `etcd://${at(etcd())}`, prefix: newPrefix() };
    const tenure = await holder(options);
    let before = 0n;
    for (let round = 0; round < 3; round += 1) {
      const lease = await tenure.acquire("r", { waitMs: 15_000 });
      expect(lease.token).toBeGreaterThan(before);
      before = lease.token;
      await etcd().kill();
      await etcd().start();
      await lease.release().catch(() => undefined);
    }
    const fresh = await (await holder(options)).acquire("r", { waitMs: 15_000 });
    expect(fresh.token).toBeGreaterThan(before);
  }, 60_000);

  test("S3: a session that survives a restart can be renewed, and keeps its leases", async () => {
    const store = await opened({ url: `etcd://${at(etcd())}`, prefix: newPrefix() });
    const { token } = await holdAndQueue(store);
    await etcd().kill();
    await etcd().start();
    const outcome = await store.renew({
      sessionId: "one",
      withdrawn: [],
      acknowledged: [],
      limitMs: 10_000,
    });
    expect(outcome).toMatchObject({ kind: "renewed", ttlMs: 60_000, gone: [] });
    const question = { resource: "r", consistency: "linearizable", limitMs: 5_000 } as const;
    expect((await store.read(question)).holder?.token).toBe(token);
  });

  test("S5: a session whose key was deleted by another program is gone, although etcd keeps its lease alive", async () => {
    const prefix = newPrefix();
    const store = await opened({ url: `etcd://${at(etcd())}`, prefix });
    await holdAndQueue(store);
    const [key, end] = [`${prefix}s/`, `${prefix}s0`].map((text) => Buffer.from(text));
    const range = { key: key?.toString("base64"), range_end: end?.toString("base64") };
    await etcd().call("/v3/kv/deleterange", range);
    const renewal = store.renew({
      sessionId: "one",
      withdrawn: [],
      acknowledged: [],
      limitMs: 5_000,
    });
    expect(await renewal).toEqual({ kind: "gone" });
  });

  test("L2: a waiter survives a compaction of the revisions that it missed", async () => {
    const prefix = newPrefix();
    const proxy = await proxied(etcd());
    const store = await opened({ url: `etcd://${at(etcd())}`, prefix });
    const waiter = await opened({ url: `etcd://${at(proxy)}`, prefix });
    const { handoff, release } = await holdAndQueue(store, waiter);
    await sleep(200);
    proxy.refuse();
    proxy.reset();
    await release();
    const answer = await store.read({ resource: "r", consistency: "linearizable", limitMs: 5_000 });
    await etcd().call("/v3/kv/compaction", { revision: answer.evidence.revision, physical: true });
    await proxy.heal();
    await handoff;
  });
});
