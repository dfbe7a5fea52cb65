// Goal: the cost of a handover does not grow with the number of waiters. Method: a hundred waiters,
// each with its own session, on real servers that count requests; nothing is timed.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { fromUrl } from "../../../src/connect.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Grant, Store } from "../../../src/stores/contract.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startRedis } from "../../servers/redis.ts";
import {
  etcdRequests,
  postgresRequests,
  redisRequests,
  zookeeperRequests,
} from "../../servers/requests.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { waitUntilFree } from "../../support/stores/until-free.ts";

const WAITERS = 100;
const HANDOVERS = 5;
const LIMIT_MS = 10_000;
const TTL_MS = 60_000;
/** The release, the next waiter's check and grant, and those of two or three waiters after it. */
const REQUESTS_MAX = 15;

describe("Redis", () => {
  const redis = useServer(startRedis, { own: true });
  testHerd(() => ({ url: redis().url, requests: () => redisRequests(redis()) }));
});

describe("PostgreSQL", () => {
  const postgres = useServer(startPostgres, { settings: { log_statement: "all" } });
  testHerd(() => ({ url: postgres().url, requests: () => postgresRequests(postgres()) }));
});

describe("etcd", () => {
  const etcd = useServer(startEtcd, { own: true });
  testHerd(() => ({ url: etcd().url, requests: () => etcdRequests(etcd()) }));
});

describe("ZooKeeper", () => {
  const zookeeper = useServer(startZooKeeper, { own: true });
  testHerd(() => ({ url: zookeeper().url, requests: () => zookeeperRequests(zookeeper()) }));
});

interface Counted {
  readonly url: string;
  requests(): Promise<number>;
}

function testHerd(engine: () => Counted): void {
  test(`a handover with ${WAITERS} waiters costs a handful of requests, and the waiters are served in order`, async () => {
    const { url, requests } = engine();
    const store = await (await fromUrl(url))(systemParts());
    onTestFinished(() => store.close());
    let holder = await enter(store, "holder");
    expect((await holder.ask()).kind).toBe("granted");
    const waiters = await Promise.all(
      Array.from({ length: WAITERS }, (_, index) => enter(store, `w${index}`)),
    );
    // One after the other, so that the order is known.
    const waits = store.untilFree === undefined ? "queued" : "busy";
    for (const waiter of waiters) expect((await waiter.ask()).kind).toBe(waits);
    const woken = waiters.map((waiter) => waiter.woken());
    await untilQuiet(requests);
    const costs: number[] = [];
    for (const [index, next] of waiters.slice(0, HANDOVERS).entries()) {
      const before = await requests();
      await holder.release();
      await woken[index];
      if (store.untilFree !== undefined)
        while ((await next.ask()).kind !== "granted") await next.woken();
      // Longer than the head start, after which the other waiters would send requests.
      await sleep(400);
      costs.push((await requests()) - before);
      holder = next;
    }
    // Use the median: if the machine stalls for longer than a head start, others may join in once.
    const [, , middle = Number.NaN] = costs.sort((a, b) => a - b);
    expect(middle, `requests of each: ${costs.join(", ")}`).toBeLessThanOrEqual(REQUESTS_MAX);
  });
}

interface Entered {
  ask(): ReturnType<Store["grant"]>;
  release(): Promise<void>;
  woken(): Promise<string>;
}

async function enter(store: Store, name: string): Promise<Entered> {
  let token = 0n;
  let onGranted: (name: string) => void = () => undefined;
  const handedOff = new Promise<string>((resolve) => {
    onGranted = resolve;
  });
  const events = {
    granted: (grant: Grant) => {
      token = grant.token;
      onGranted(name);
    },
    lost: () => undefined,
    wanted: () => undefined,
  };
  const session = { sessionId: name, holderId: name, ttlMs: TTL_MS, limitMs: LIMIT_MS };
  await store.openSession({ ...session, events });
  const attempt = { sessionId: name, resource: "r", attempt: `${name}.1`, limitMs: LIMIT_MS };
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  return {
    ask: async () => {
      const outcome = await store.grant({ ...attempt, holderId: name, queue: true });
      if (outcome.kind === "granted") token = outcome.token;
      return outcome;
    },
    release: async () => {
      expect(await store.release({ ...attempt, token })).toEqual({ kind: "released" });
    },
    woken: () => {
      if (store.untilFree === undefined) return handedOff;
      const wait = waitUntilFree(store, { ...attempt, signal: stop.signal }).then(() => name);
      wait.catch(() => undefined);
      return wait;
    },
  };
}

/**
 * Waits until every waiter has made its first check: the number of requests has stopped growing.
 */
async function untilQuiet(requests: () => Promise<number>): Promise<void> {
  for (let last = -1, now = await requests(); now - last > 3; now = await requests()) {
    last = now;
    await sleep(500);
  }
}
