// Goal: what a server of an ensemble does for reasons of its own makes no request fail: one that is a moment behind its
// neighbours hangs up, and one that hears late of an old connection takes the session there. Method: an ensemble on virtual time.
import { setImmediate as soon } from "node:timers/promises";
import { expect, test } from "vitest";
import { modelBench } from "../../../test/support/model-bench.ts";
import { Connection } from "../../sim/stores/zookeeper/connection.ts";
import type { Member } from "../../sim/stores/zookeeper/member.ts";
import { zookeeperShaped } from "../../sim/stores/zookeeper.ts";
import { Chance } from "../../sim/world/chance.ts";
import { FINE } from "../../sim/world/network.ts";
import type { Store } from "../store.ts";
import { connectFrame } from "./messages.ts";

const RENEWALS = 60;
const LIMIT_MS = 400;
const TTL_MS = 5_000;
const session = { sessionId: "a", limitMs: LIMIT_MS };

/** A store behind whose one address stand two servers, while time runs on by itself. */
async function withEnsemble(
  usualMs: number,
  work: (store: Store, members: readonly Member[], now: () => number) => Promise<void>,
): Promise<void> {
  let members: readonly Member[] = [];
  const bench = modelBench(
    (site) => {
      const model = zookeeperShaped("balanced")(site);
      members = model.servers as readonly Member[];
      return model;
    },
    { chance: new Chance("ensemble"), weather: { ...FINE, usualMs } },
  );
  const running = bench.run();
  const store = await bench.open();
  await store.openSession({ ...session, holderId: "a", ttlMs: TTL_MS });
  await work(store, members, bench.now);
  bench.stop();
  await running;
}

async function takeAndRelease(store: Store, attempt: string): Promise<void> {
  const wish = { resource: "r", attempt, holderId: "a", value: 0, queue: false };
  const granted = await store.grant({ ...session, ...wish });
  if (granted.kind !== "granted") throw new Error(`not granted: ${granted.kind}`);
  await store.release({ ...session, resource: "r", token: granted.token });
}

test("L3: a renewal by way of a server that has not heard of the last write yet", () =>
  withEnsemble(8, async (store) => {
    const failed: unknown[] = [];
    for (let count = 0; count < RENEWALS; count += 1) {
      await takeAndRelease(store, `a.${count}`);
      const renewed = store.renew({ ...session, withdrawn: [] });
      await renewed.catch((error: unknown) => failed.push(error));
    }
    expect(failed).toEqual([]);
  }));

test("a request over a connection that the session was taken from by one that came late", () =>
  withEnsemble(2, async (store, members, now) => {
    const known = members.flatMap(({ sessions }) => [...sessions.all()]);
    const sessionId = BigInt(known.find(({ timeoutMs }) => timeoutMs === TTL_MS)?.id ?? 0);
    const hello = { lastZxid: 0n, timeoutMs: TTL_MS, sessionId, password: Buffer.alloc(16) };
    // At each of them in turn, several times: mostly it is not the server that the store is connected to.
    for (const [index, member] of [...members, ...members, ...members].entries()) {
      const old = new Connection(nothing, nothing);
      member.accept(old);
      member.receive(old, connectFrame(hello));
      for (const until = now() + 50; now() < until; ) await soon();
      await takeAndRelease(store, `a.${index}`);
    }
  }));

function nothing(): void {}
