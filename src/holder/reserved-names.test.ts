// Goal: the records that once() keeps in the store do not collide with the names of
// callers and do not show up among their leases. Method: every call that takes a name, with each
// reserved ending; then real records next to ordinary leases on a memory backend.
import { expect, test } from "vitest";
import { flush, makeWorld } from "../../test/support/holder/holder-world.ts";
import { RESERVED_SUFFIXES } from "./reserved-names.ts";

test.each(Object.values(RESERVED_SUFFIXES))(
  "a name that ends with %s cannot be acquired, led or run once",
  async (suffix) => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const name = `x${suffix}`;
    const message = `The name "${name}" ends with "${suffix}", which Tenure reserves`;
    const work = (): never => expect.unreachable();
    await expect(tenure.acquire(name)).rejects.toThrow(message);
    await expect(tenure.tryAcquire(name)).rejects.toThrow(message);
    await expect(tenure.withLease(name, work)).rejects.toThrow(message);
    await expect(tenure.once(name, { atMs: clock.wallNow() }, work)).rejects.toThrow(message);
    await expect(tenure.oncePer(name, { everyMs: 1_000 }, work)).rejects.toThrow(message);
    expect(() => tenure.election(name, { lead: work })).toThrow(message);
    expect(store.calls.grant).toBe(0);
  },
);

test("a reserved ending in the middle of a name is allowed", async () => {
  const { tenure } = await makeWorld().join("one");
  expect((await tenure.acquire("x@once/y")).resource).toBe("x@once/y");
});

test("list and watch omit records, and read and revoke reach them", async () => {
  const world = makeWorld();
  const { tenure } = await world.join("one");
  await tenure.once("job", { atMs: world.clock.wallNow() }, () => 1);
  await tenure.acquire("job");
  await tenure.acquire("leader");

  const listed: string[] = [];
  for await (const view of tenure.list()) listed.push(view.resource);
  expect(listed).toEqual(["job", "leader"]);

  const watched: string[] = [];
  const stop = new AbortController();
  const watching = (async () => {
    for await (const view of tenure.watch("", { signal: stop.signal })) watched.push(view.resource);
  })().catch(() => undefined);
  await flush();
  await tenure.oncePer("sweep", { everyMs: 1_000 }, () => 1);
  await flush();
  stop.abort();
  await watching;
  expect(new Set(watched)).toEqual(new Set(["job", "leader", "sweep"]));

  expect((await tenure.read("job@once")).holder?.holderId).toBe("one");
  expect(await tenure.revoke("job@once")).toMatchObject({ holderId: "one" });
});
