// Goal: a server that is a moment behind its neighbours does not make a renewal fail, which would put every lease in doubt for
// nothing. Method: an ensemble behind one address, on virtual time; each renewal moves the session, right behind a write.
import { expect, test } from "vitest";
import { modelBench } from "../../../test/support/model-bench.ts";
import { zookeeperShaped } from "../../sim/stores/zookeeper.ts";
import { Chance } from "../../sim/world/chance.ts";
import { FINE } from "../../sim/world/network.ts";

const RENEWALS = 60;
const LIMIT_MS = 400;

test("L3: a renewal by way of a server that has not heard of the last write yet", async () => {
  const weather = { ...FINE, usualMs: 8 };
  const bench = modelBench(zookeeperShaped("balanced"), { chance: new Chance("behind"), weather });
  const running = bench.run();
  const store = await bench.open();
  const session = { sessionId: "a", limitMs: LIMIT_MS };
  await store.openSession({ ...session, holderId: "a", ttlMs: 5_000 });
  const failed: unknown[] = [];
  for (let count = 0; count < RENEWALS; count += 1) {
    const wish = { resource: "r", attempt: `a.${count}`, holderId: "a", value: 0, queue: false };
    const granted = await store.grant({ ...session, ...wish });
    if (granted.kind !== "granted") throw new Error(`not granted: ${granted.kind}`);
    await store.release({ ...session, resource: "r", token: granted.token });
    await store.renew({ ...session, withdrawn: [] }).catch((error: unknown) => failed.push(error));
  }
  bench.stop();
  await running;
  expect(failed).toEqual([]);
});
