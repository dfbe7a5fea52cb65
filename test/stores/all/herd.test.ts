// Goal: the cost of a handoff does not grow with the number of waiters. Method: a hundred waiters,
// each with its own session, on real servers that count requests; nothing is timed.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { fromUrl } from "../../../src/connect.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { SessionEvents, Store } from "../../../src/stores/contract.ts";
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

const WAITERS = 100;
const HANDOFFS = 5;
const LIMIT_MS = 10_000;
const TTL_MS = 60_000;
/**
 * The release, what the next waiter and the one after it read and watch, and the requests that do
 * not belong to the handoff: each reading of the count, and the pings of ZooKeeper's sessions.
 */
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
  test(`a handoff with ${WAITERS} waiters costs a handful of requests, and the waiters are served in order`, async () => {
    const { url, requests } = engine();
    const store = await (await fromUrl(url))(systemParts());
    onTestFinished(() => store.close());
    let holder = await enter(store, "holder");
    expect((await holder.ask()).kind).toBe("granted");
    const waiters = await Promise.all(
      Array.from({ length: WAITERS }, (_, index) => enter(store, `w${index}`)),
    );
    // One after the other, so that the order is known.
    for (const waiter of waiters) expect((await waiter.ask()).kind).toBe("queued");
    await untilQuiet(requests);
    const costs: number[] = [];
    for (const next of waiters.slice(0, HANDOFFS)) {
      const before = await requests();
      await holder.release();
      await next.granted;
      await untilQuiet(requests);
      costs.push((await requests()) - before);
      holder = next;
    }
    expect(Math.max(...costs), `requests of each: ${costs.join(", ")}`).toBeLessThanOrEqual(
      REQUESTS_MAX,
    );
  });
}

interface Entered {
  ask(): ReturnType<Store["grant"]>;
  release(): Promise<void>;
  /** Resolves when the store has reported the grant. */
  readonly granted: Promise<void>;
}

async function enter(store: Store, name: string): Promise<Entered> {
  const attempt = { sessionId: name, resource: "r", attempt: `${name}.1`, limitMs: LIMIT_MS };
  let token = 0n;
  let onGranted = (): void => undefined;
  const granted = new Promise<void>((resolve) => {
    onGranted = resolve;
  });
  const events: SessionEvents = {
    granted: (grant) => {
      token = grant.token;
      onGranted();
    },
    lost: () => undefined,
    wanted: () => undefined,
  };
  const session = { sessionId: name, holderId: name, ttlMs: TTL_MS, events, limitMs: LIMIT_MS };
  await store.openSession(session);
  return {
    ask: async () => {
      const outcome = await store.grant({ ...attempt, holderId: name, queue: true });
      if (outcome.kind === "granted") token = outcome.token;
      return outcome;
    },
    release: async () => {
      expect(await store.release({ ...attempt, token })).toEqual({ kind: "released" });
    },
    granted,
  };
}

/** Waits until the number of requests has stopped growing, apart from those that count them. */
async function untilQuiet(requests: () => Promise<number>): Promise<void> {
  for (let last = -1, now = await requests(); now - last > 3; now = await requests()) {
    last = now;
    await sleep(500);
  }
}
