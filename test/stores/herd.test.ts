// Goal: however many wait, a handover concerns a few of them. Method: a hundred waiters, each with a session of its own, on real
// servers that count the requests they are asked; counted, not timed.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { fromUrl } from "../../src/connect.ts";
import { systemParts } from "../../src/runtime/system.ts";
import type { Store } from "../../src/stores/store.ts";
import { startEtcd } from "../servers/etcd.ts";
import { startPostgres } from "../servers/postgres.ts";
import { startRedis } from "../servers/redis.ts";
import {
  etcdRequests,
  postgresRequests,
  redisRequests,
  zookeeperRequests,
} from "../servers/requests.ts";
import { useServer } from "../servers/use-server.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";

const WAITERS = 100;
const LIMIT_MS = 10_000;
const TTL_MS = 60_000;
/** The release, the next one's look and grant, and those of two or three behind it. */
const REQUESTS_MAX = 15;

describe("Redis", () => {
  const redis = useServer(startRedis, { own: true });
  herd(() => ({ url: redis().url, requests: () => redisRequests(redis()) }));
});

describe("PostgreSQL", () => {
  const postgres = useServer(startPostgres, { settings: { log_statement: "all" } });
  herd(() => ({ url: postgres().url, requests: () => postgresRequests(postgres()) }));
});

describe("etcd", () => {
  const etcd = useServer(startEtcd, { own: true });
  herd(() => ({ url: etcd().url, requests: () => etcdRequests(etcd()) }));
});

describe("ZooKeeper", () => {
  const zookeeper = useServer(startZooKeeper, { own: true });
  herd(() => ({ url: zookeeper().url, requests: () => zookeeperRequests(zookeeper()) }));
});

interface Counted {
  readonly url: string;
  requests(): Promise<number>;
}

function herd(engine: () => Counted): void {
  test(`a release with ${WAITERS} waiters costs a handful of requests, and the first of them is woken`, async () => {
    const { url, requests } = engine();
    const store = await (await fromUrl(url))(systemParts());
    onTestFinished(() => store.close());
    const holder = await enter(store, "holder");
    const held = await holder.ask();
    if (held.kind !== "granted") throw new Error(held.kind);
    const waiters = await Promise.all(
      Array.from({ length: WAITERS }, (_, index) => enter(store, `w${index}`)),
    );
    // One after the other, so that the order is known.
    for (const waiter of waiters) expect((await waiter.ask()).kind).toBe("busy");
    const woken = waiters.map((waiter) => waiter.woken());
    await quiet(requests);
    const before = await requests();
    const release = { sessionId: "holder", resource: "r", token: held.token, limitMs: LIMIT_MS };
    expect((await store.release(release)).kind).toBe("released");
    expect(await Promise.race(woken)).toBe("w0");
    expect((await waiters[0]?.ask())?.kind).toBe("granted");
    // Longer than the head start, behind which the others would come.
    await sleep(700);
    expect((await requests()) - before).toBeLessThanOrEqual(REQUESTS_MAX);
  });
}

interface Entered {
  ask(): ReturnType<Store["grant"]>;
  woken(): Promise<string>;
}

async function enter(store: Store, name: string): Promise<Entered> {
  await store.openSession({ sessionId: name, holderId: name, ttlMs: TTL_MS, limitMs: LIMIT_MS });
  const attempt = { sessionId: name, resource: "r", attempt: `${name}.1`, limitMs: LIMIT_MS };
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  return {
    ask: () => store.grant({ ...attempt, holderId: name, queue: true }),
    woken: () => {
      const wait = store.untilFree({ ...attempt, signal: stop.signal }).then(() => name);
      wait.catch(() => undefined);
      return wait;
    },
  };
}

/** Until all have looked: nobody has asked anything for a while. */
async function quiet(requests: () => Promise<number>): Promise<void> {
  for (let last = -1, now = await requests(); now - last > 3; now = await requests()) {
    last = now;
    await sleep(500);
  }
}
