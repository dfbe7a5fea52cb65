// Goal: grants and releases that share a message are each decided and answered as if sent alone.
// Method: many concurrent requests against real servers, including some that must be rejected.
import { describe, expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { GrantOutcome, GrantRequest, OpenStore, Store } from "../../../src/stores/contract.ts";
import { etcdStore } from "../../../src/stores/etcd/index.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import { until } from "../../servers/ask.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { waitUntilFree } from "../../support/stores/until-free.ts";

const etcd = useServer(startEtcd);
const postgres = useServer(startPostgres);
const zookeeper = useServer(startZooKeeper);
const LIMIT_MS = 10_000;
let places = 0;

const stores: Readonly<Record<string, (place: string) => OpenStore>> = {
  etcd: (place) => etcdStore({ url: `etcd://${etcd().host}:${etcd().port}`, prefix: `${place}/` }),
  postgres: (place) => postgresStore({ url: postgres().url, prefix: place }),
  zookeeper: (place) =>
    zookeeperStore({
      url: `zookeeper://${zookeeper().host}:${zookeeper().port}`,
      prefix: `/${place}`,
    }),
};

async function open(name: string): Promise<Store> {
  places += 1;
  const make = stores[name];
  if (make === undefined) throw new Error(name);
  const store = await make(`at_once_${places}_${process.pid}`)(systemParts());
  onTestFinished(() => store.close());
  for (const sessionId of ["s", "other"]) {
    const session = { sessionId, holderId: `of ${sessionId}`, ttlMs: 30_000 };
    await store.openSession({ ...session, limitMs: LIMIT_MS });
  }
  return store;
}

function wish(sessionId: string, resource: string, attempt: string): GrantRequest {
  const holderId = `of ${sessionId}`;
  return { sessionId, holderId, resource, attempt, queue: false, limitMs: LIMIT_MS };
}

function requireToken(outcome: GrantOutcome | undefined): bigint {
  if (outcome?.kind !== "granted") throw new Error(`Expected a grant, got ${outcome?.kind}.`);
  return outcome.token;
}

async function isGranted(store: Store, request: GrantRequest): Promise<boolean> {
  return (await store.grant(request)).kind === "granted";
}

async function release(store: Store, ref: readonly [string, string, bigint]): Promise<string> {
  const [sessionId, resource, token] = ref;
  return (await store.release({ sessionId, resource, token, limitMs: LIMIT_MS })).kind;
}

describe.each(Object.keys(stores))("%s", (name) => {
  test("S1: forty resources that are taken and freed concurrently each get increasing tokens", async () => {
    const store = await open(name);
    const resources = Array.from({ length: 40 }, (_, index) => `r ${index}`);
    let last = resources.map(() => 0n);
    for (let round = 0; round < 3; round += 1) {
      const asked = resources.map((resource) =>
        store.grant(wish("s", resource, `${resource} ${round}`)),
      );
      const tokens = (await Promise.all(asked)).map(requireToken);
      for (const [index, token] of tokens.entries()) expect(token > (last[index] ?? 0n)).toBe(true);
      last = tokens;
      const views = await store.list({ prefix: "", limit: 100, limitMs: LIMIT_MS });
      expect(new Map(views.leases.map((view) => [view.resource, view.holder?.token]))).toEqual(
        new Map(resources.map((resource, index) => [resource, tokens[index]])),
      );
      const freed = tokens.map((token, index) =>
        release(store, ["s", resources[index] ?? "", token]),
      );
      expect(new Set(await Promise.all(freed))).toEqual(new Set(["released"]));
    }
  });

  test("S4: concurrent grants are answered separately: granted, busy, gone, and the same token for a repeated attempt", async () => {
    const store = await open(name);
    await store.grant(wish("other", "held", "other.1"));
    const mine = requireToken(await store.grant(wish("s", "mine", "s.1")));
    const [, free, busy, again, dead, last, ...twins] = await Promise.all(
      [
        wish("s", "first", "s.2"),
        wish("s", "free", "s.3"),
        wish("s", "held", "s.4"),
        wish("s", "mine", "s.1"),
        wish("absent", "for an absent session", "absent.1"),
        wish("s", "free too", "s.5"),
        wish("s", "twin", "s.6"),
        wish("other", "twin", "other.2"),
      ].map((each) => store.grant(each)),
    );
    expect([free?.kind, last?.kind]).toEqual(["granted", "granted"]);
    expect(busy).toEqual({ kind: "busy", holderId: "of other" });
    expect(again).toEqual({ kind: "granted", token: mine });
    expect(dead).toEqual({ kind: "gone" });
    expect(twins.filter(({ kind }) => kind === "granted")).toHaveLength(1);
  });

  test("S1: concurrent attempts for one resource never get the same token", async () => {
    const store = await open(name);
    const asked = ["s.1", "s.2", "s.3"].map((attempt) => ({
      ...wish("s", "r", attempt),
      queue: true,
    }));
    const outcomes = await Promise.all(
      [wish("s", "first", "s.0"), ...asked].map((each) => store.grant(each)),
    );
    const [winner, ...others] = outcomes
      .slice(1)
      .map((outcome, index) => ({ outcome, asked: asked[index] }))
      .sort(({ outcome }) => (outcome.kind === "granted" ? -1 : 1));
    let last = requireToken(winner?.outcome);
    const waiting = others.map((each) => each.asked ?? wish("", "", ""));
    const { signal } = new AbortController();
    for (let turn = 0; turn < 2; turn += 1) {
      await release(store, ["s", "r", last]);
      const next = await Promise.race(
        waiting.map(async (each) => {
          if (store.untilFree !== undefined) await waitUntilFree(store, { ...each, signal });
          // A repeated request is answered with the grant once the resource was handed off.
          else await until("the handoff", () => isGranted(store, each), LIMIT_MS);
          return each;
        }),
      );
      const token = requireToken(await store.grant(next));
      expect(token > last).toBe(true);
      last = token;
      waiting.splice(waiting.indexOf(next), 1);
    }
  });

  test("S5: concurrent releases are matched by session and token: a late release of an older term changes nothing", async () => {
    const store = await open(name);
    const old = requireToken(await store.grant(wish("s", "r", "s.1")));
    expect(await release(store, ["s", "r", old])).toBe("released");
    const now = requireToken(await store.grant(wish("s", "r", "s.2")));
    const others = ["a", "b", "c"];
    const held = others.map((resource) => store.grant(wish("s", resource, `s.${resource}`)));
    const tokens = (await Promise.all(held)).map(requireToken);
    const kinds = await Promise.all([
      ...others.map((resource, index) => release(store, ["s", resource, tokens[index] ?? 0n])),
      release(store, ["s", "r", old]),
      release(store, ["other", "a", tokens[0] ?? 0n]),
      release(store, ["s", "unknown", now]),
    ]);
    expect(kinds).toEqual(["released", "released", "released", "notHeld", "notHeld", "notHeld"]);
    const read = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
    expect((await store.read(read)).holder?.token).toBe(now);
  });

  test("a lease that was revoked in the meantime does not prevent the release of the others", async () => {
    const store = await open(name);
    const resources = ["a", "b", "c", "d"];
    const asked = resources.map((resource) => store.grant(wish("s", resource, `s.${resource}`)));
    const tokens = (await Promise.all(asked)).map(requireToken);
    await store.revoke({ resource: "c", token: tokens[2] ?? 0n, limitMs: LIMIT_MS });
    const freed = resources.map((resource, index) =>
      release(store, ["s", resource, tokens[index] ?? 0n]),
    );
    expect(await Promise.all(freed)).toEqual(["released", "released", "notHeld", "released"]);
  });
});
