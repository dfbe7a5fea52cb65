// Goal: no request fails because a server that has not caught up closes the connection, or because
// an old connection arrives late and takes the session over. Method: an ensemble on virtual time.
import { setImmediate as soon } from "node:timers/promises";
import { expect, test } from "vitest";
import { Connection } from "../../../sim/models/zookeeper/connection.ts";
import { zookeeperShaped } from "../../../sim/models/zookeeper/index.ts";
import type { Member } from "../../../sim/models/zookeeper/member.ts";
import { readHello } from "../../../sim/models/zookeeper/requests.ts";
import { modelBench } from "../../../sim/test/support/model-bench.ts";
import { Chance } from "../../../sim/world/chance.ts";
import { FINE } from "../../../sim/world/network.ts";
import type { Store } from "../../stores/contract.ts";
import { connectFrame } from "./messages.ts";

const RENEWALS = 60;
const LIMIT_MS = 400;
const TTL_MS = 5_000;
const session = { sessionId: "a", limitMs: LIMIT_MS };

/** A store whose single address stands for two servers, while time passes by itself. */
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

async function takeAndRelease(store: Store, attempt: string, resource = "r"): Promise<void> {
  const wish = { resource, attempt, holderId: "a", value: 0, queue: false };
  const granted = await store.grant({ ...session, ...wish });
  if (granted.kind !== "granted") throw new Error(`not granted: ${granted.kind}`);
  await store.release({ ...session, resource, token: granted.token });
}

test("L3: a renewal succeeds through a server that has not applied the last write yet", () =>
  withEnsemble(8, async (store) => {
    const failed: unknown[] = [];
    for (let count = 0; count < RENEWALS; count += 1) {
      await takeAndRelease(store, `a.${count}`);
      const renewed = store.renew({ ...session, withdrawn: [], acknowledged: [] });
      await renewed.catch((error: unknown) => failed.push(error));
    }
    expect(failed).toEqual([]);
  }));

test("a request succeeds although an old connection has taken the session over", () =>
  withEnsemble(2, async (store, members, now) => {
    const known = members.flatMap(({ sessions }) => [...sessions.all()]);
    const sessionId = BigInt(known.find(({ timeoutMs }) => timeoutMs === TTL_MS)?.id ?? 0);
    const late = { lastZxid: 0n, timeoutMs: TTL_MS, sessionId, password: Buffer.alloc(16) };
    /** What the store has seen, as it stated when it continued its session. */
    const said: number[] = [];
    for (const member of members) {
      const receive = member.receive.bind(member);
      member.receive = (connection, bytes) => {
        if (!connection.isHandshakeDone) said.push(readHello(bytes.subarray(4)).lastZxid);
        receive(connection, bytes);
      };
    }
    // At each server in turn, several times, because the store may be connected to the same one.
    for (const [index, member] of [...members, ...members, ...members].entries()) {
      const seen = Math.max(...members.map(({ tree }) => tree.lastZxid));
      const old = new Connection(nothing, nothing);
      member.accept(old);
      member.receive(old, connectFrame(late));
      for (const until = now() + 50; now() < until; ) await soon();
      said.length = 0;
      // Two at a time: when the first is rejected, the other one is still in flight.
      const resources = ["r", "s"];
      await Promise.all(resources.map((each) => takeAndRelease(store, `a.${index}${each}`, each)));
      // Only this store writes, so it has seen everything. No server with older data may serve it.
      expect(said.filter((lastZxid) => lastZxid < seen)).toEqual([]);
    }
  }));

function nothing(): void {}
