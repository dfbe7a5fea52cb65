// Goal: the list of held resources is correct and stays small. Method: a real server; the list is
// read through another store and directly.
import { describe, expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { LIMIT_MS, redisWorld } from "../../support/stores/redis-world.ts";

const redis = useServer(startRedis, { own: true });
const { opened, session, take, cycle } = redisWorld(redis, "list");

describe("the list of held resources", () => {
  async function listed(store: Store): Promise<string[]> {
    const page = await store.list({ prefix: "", limit: 100, limitMs: LIMIT_MS });
    return page.leases.map(({ resource }) => resource);
  }

  test("the list is correct for a resource that is taken repeatedly, however often it is read", async () => {
    const { store, prefix, base } = await opened();
    const other = await redisStore({ url: redis().url, prefix })(systemParts());
    onTestFinished(() => other.close());
    await session(store, "one");
    for (let round = 0; round < 12; round += 1) {
      const token = await take(store, "one", "r");
      expect(await listed(other)).toEqual(["r"]);
      await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
      // Read after some of the releases, so that the next grant finds a free lease in every
      // possible state.
      if (round % 3 === 0) expect(await listed(other)).toEqual([]);
    }
    expect(await listed(other)).toEqual([]);
    expect(await redis().command("EXISTS", `${base}held`)).toBe(0);
  });

  test("S5: a late release of an earlier term changes nothing for a repeatedly taken resource", async () => {
    const { store } = await opened();
    for (const id of ["one", "two"]) await session(store, id);
    const tokens: bigint[] = [];
    for (let round = 0; round < 3; round += 1) tokens.push(await cycle(store, "one", "r"));
    const token = await take(store, "one", "r");
    const release = (sessionId: string, offered: bigint): ReturnType<Store["release"]> =>
      store.release({ sessionId, resource: "r", token: offered, limitMs: LIMIT_MS });
    for (const old of tokens) expect(await release("one", old)).toEqual({ kind: "notHeld" });
    expect(await release("two", token)).toEqual({ kind: "notHeld" });
    expect(await listed(store)).toEqual(["r"]);
    expect(await release("one", token)).toEqual({ kind: "released" });
    expect(await listed(store)).toEqual([]);
  });
});
