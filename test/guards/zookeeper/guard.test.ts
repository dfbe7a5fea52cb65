// Goal: the ZooKeeper guard follows the rule of all guards, does all of the writes or none, sends
// one request per write once it has read the highest, and names the write that failed. Method: the
// conformance suite and a real server, with a proxy that drops replies; the data is read back
// without the guard.

import { describe, expect, test } from "vitest";
import {
  ERROR,
  getData,
  readDataAndStat,
  setData,
} from "../../../src/clients/zookeeper/messages.ts";
import { encodeName } from "../../../src/clients/zookeeper/names.ts";
import { type ZooKeeperGuard, zookeeperGuard } from "../../../src/guards/zookeeper/index.ts";
import { connect } from "../../../src/index.ts";
import { guardSuite } from "../../../src/testing/index.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { onOwnConnections } from "../../support/guards/guard-suites.ts";
import { reasonOf } from "../../support/stores/lost-replies.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";
import { Console, deleteBelow } from "../../support/stores/zookeeper-nodes.ts";

const server = useServer(startZooKeeper, { own: true });

/** The data of a node, read from the server without a guard. Undefined if there is no node. */
async function dataAt(path: string): Promise<string | undefined> {
  await using console = await Console.open(server());
  const reply = await console.wire.send(getData(path));
  return reply.error === ERROR.noNode ? undefined : readDataAndStat(reply.body).data;
}

async function put(path: string, data: string): Promise<void> {
  await using console = await Console.open(server());
  await console.create(path).catch(() => undefined);
  await console.send(setData(path, data, -1));
}

const source = (token: bigint, resource = "ledger") => ({ resource, token });
const stale = (offered: bigint, highest: bigint) => ({
  code: "STALE_TOKEN",
  resource: "ledger",
  offered,
  highest,
});
const folderPath = (place: string, resource: string): string =>
  `/data-${place}-${encodeName(resource)}`;

guardSuite(
  onSharedServer,
  onOwnConnections({
    name: "zookeeper",
    server,
    open: (place, options) => zookeeperGuard(`${server().url}/${place}`, options),
    write: async (guard, given, { place, resource, text, fail }) => {
      const folder = folderPath(place, resource);
      await using console = await Console.open(server());
      await console.create(folder).catch(() => undefined);
      const writes = [
        { create: `${folder}/e`, data: text, sequential: true },
        // The node already exists, so ZooKeeper rejects the whole multi.
        ...(fail ? [{ create: folder }] : []),
      ];
      return given === undefined ? guard.write(writes) : guard.write(given, writes);
    },
    written: async (place, resource) => {
      const folder = folderPath(place, resource);
      await using console = await Console.open(server());
      const names = (await console.children(folder)).sort();
      const nodes = await Promise.all(names.map((name) => console.read(`${folder}/${name}`)));
      return nodes.map(({ data }) => data);
    },
  }),
);

let roots = 0;
function fresh(): { guard: ZooKeeperGuard; root: string; own: string } {
  roots += 1;
  const root = `/r${roots}`;
  return { guard: zookeeperGuard(`${server().url}${root}`), root, own: `/own${roots}` };
}

describe("the ZooKeeper guard", () => {
  test("S2: creations, writes and deletions are one step, and a stale token does none of them", async () => {
    const { guard, root, own } = fresh();
    await put(own, "");
    await put(`${own}/old`, "1");
    const written = await guard.write(source(5n), [
      { create: `${own}/a`, data: "text" },
      { create: `${own}/n`, data: new Uint8Array([49]), sequential: true },
      { set: own, data: "set" },
      { delete: `${own}/old`, version: 1 },
      { check: own },
    ]);
    expect(written).toEqual([
      { path: `${own}/a` },
      { path: expect.stringMatching(/\/n\d{10}$/) },
      { version: 2 },
      {},
      {},
    ]);
    expect(await dataAt(`${own}/a`)).toBe("text");
    expect(await dataAt(String(written[1]?.path))).toBe("1");
    expect(await dataAt(`${own}/old`)).toBeUndefined();
    const late = guard.write(source(4n), [
      { set: own, data: "late" },
      { create: `${own}/b` },
      { delete: `${own}/a` },
    ]);
    await expect(late).rejects.toMatchObject(stale(4n, 5n));
    expect(await dataAt(own)).toBe("set");
    expect(await dataAt(`${own}/a`)).toBe("text");
    expect(await dataAt(`${own}/b`)).toBeUndefined();
    expect(await dataAt(`${root}/guards/ledger`)).toBe("5".padStart(39, "0"));
    await guard.close();
  });

  test("S2: the multi itself rejects a guard with an outdated highest token", async () => {
    const { guard, root, own } = fresh();
    const other = zookeeperGuard(`${server().url}${root}`);
    await put(own, "");
    await guard.write(source(1n), [{ set: own, data: "1" }]);
    await other.advance(source(2n));
    const late = zookeeperGuard(`${server().url}${root}`);
    await late.advance(source(2n));
    await expect(guard.write(source(1n), [{ set: own, data: "late" }])).rejects.toMatchObject(
      stale(1n, 2n),
    );
    // A new term in its outdated view. It must not lower the highest token.
    await other.advance(source(9n));
    await expect(late.write(source(3n), [{ set: own, data: "late" }])).rejects.toMatchObject(
      stale(3n, 9n),
    );
    expect(await dataAt(own)).toBe("1");
    expect(await other.highest("ledger")).toBe(9n);
    await Promise.all([guard.close(), other.close(), late.close()]);
  });

  test("a guarded write is one transaction and does not write the highest token again", async () => {
    const { guard, root, own } = fresh();
    await put(own, "");
    for (let index = 0; index < 10; index += 1)
      await guard.write(source(1n), [{ set: own, data: String(index) }]);
    await using console = await Console.open(server());
    expect((await console.read(`${root}/guards/ledger`)).stat.version).toBe(0);
    expect((await console.read(own)).stat.version).toBe(11);
    await guard.close();
  });

  test("the error names the write that ZooKeeper rejected and the reason, and no other write is done", async () => {
    const { guard, own } = fresh();
    await put(own, "");
    await put(`${own}/child`, "");
    const first = { create: `${own}/first` };
    const refused: [RegExp, object][] = [
      [/write 2: the node or its parent does not exist/, { set: `${own}/none`, data: "" }],
      [/write 2: the node or its parent does not exist/, { create: `${own}/none/below` }],
      [/write 2: the node already exists/, { create: `${own}/child` }],
      [/write 2: the node has another version/, { set: own, data: "", version: 9 }],
      [/write 2: the node has another version/, { check: own, version: 9 }],
      [/write 2: the node has children/, { delete: own }],
    ];
    for (const [words, write] of refused) {
      const failure = await reasonOf(guard.write(source(3n), [first, write as never]));
      expect(failure).toMatchObject({ code: "INVALID_ARGUMENT", resource: "ledger" });
      expect(String(failure)).toMatch(words);
    }
    expect(await dataAt(`${own}/first`)).toBeUndefined();
    expect(await guard.highest("ledger")).toBeUndefined();
    await guard.close();
  });

  test("S2: a malformed highest token is reported, and nothing is written", async () => {
    for (const junk of ["", "7", "x".repeat(39)]) {
      const { guard, root, own } = fresh();
      await put(own, "");
      await guard.highest("ledger");
      await put(`${root}/guards/ledger`, junk);
      const unusable = { code: "STORE_UNUSABLE" };
      await expect(guard.write(source(9n), [{ set: own, data: "1" }])).rejects.toMatchObject(
        unusable,
      );
      await expect(guard.advance(source(9n))).rejects.toMatchObject(unusable);
      await expect(guard.highest("ledger")).rejects.toMatchObject(unusable);
      expect(await dataAt(own)).toBe("");
      await guard.close();
    }
  });

  test("a guard whose nodes were deleted reports it and writes nothing", async () => {
    const { guard, root, own } = fresh();
    await put(own, "");
    await guard.write(source(1n), [{ set: own, data: "1" }]);
    await deleteBelow(server(), `${root}/guards`);
    await expect(guard.write(source(1n), [{ set: own, data: "2" }])).rejects.toMatchObject({
      code: "STORE_UNUSABLE",
    });
    expect(await dataAt(own)).toBe("1");
    await guard.close();
  });

  test("invalid writes, and writes to Tenure's own nodes, are rejected before anything is sent", async () => {
    const { guard, root } = fresh();
    const bad: unknown[] = [
      undefined,
      [],
      {},
      "set",
      [undefined],
      [{}],
      [{ create: "" }],
      [{ create: "/" }],
      [{ create: "a" }],
      [{ create: "/a/" }],
      [{ create: "/a//b" }],
      [{ create: "/a/../b" }],
      [{ set: "/a" }],
      [{ set: "/a", data: 7 }],
      [{ set: "/a", data: "", delete: "/a" }],
      [{ delete: "/a", version: -1 }],
      [{ delete: "/a", version: 1.5 }],
      [{ set: `${root}/guards/ledger`, data: "1" }],
      [{ delete: root }],
      [{ create: "/a", data: "x".repeat(1_100_000) }],
    ];
    for (const writes of bad) {
      const failure = await reasonOf(guard.write(source(1n), writes as never));
      expect([typeof writes, failure]).toMatchObject([typeof writes, { code: "INVALID_ARGUMENT" }]);
    }
    expect(await guard.highest("ledger")).toBeUndefined();
    await guard.close();
  });

  test("invalid targets and options are rejected", () => {
    for (const target of [undefined, 7, {}, "zookeeper:", { url: "zookeeper://" }])
      expect(() => zookeeperGuard(target as never)).toThrow(/zookeeper|hosts/);
    expect(() => zookeeperGuard({ url: "zookeeper://h" }, { limitMs: 0 })).toThrow("limitMs");
    expect(() => zookeeperGuard({ url: "zookeeper://h" }, { resource: "" })).toThrow(
      "resource name",
    );
  });

  test("leases of a store in the same root advance the guard, and a former holder is rejected", async () => {
    const { guard, root, own } = fresh();
    await put(own, "");
    await using tenure = await connect(`${server().url}${root}`);
    const lease = await tenure.acquire("ledger", { guards: [guard] });
    await lease.run(async () => guard.write([{ set: own, data: "1" }]));
    const facts = source(lease.token);
    await lease.release();
    const next = await tenure.acquire("ledger", { guards: [guard] });
    await expect(guard.write(facts, [{ set: own, data: "late" }])).rejects.toMatchObject(
      stale(facts.token, next.token),
    );
    expect(await dataAt(own)).toBe("1");
    await guard.close();
    await expect(guard.advance(source(next.token))).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe("when replies are lost", () => {
  test('a write without a reply is reported as "unknown", and its effect exists', async () => {
    const { guard: direct, root, own } = fresh();
    await using proxy = await startProxy(server());
    const guard = zookeeperGuard(
      { url: `zookeeper://127.0.0.1:${proxy.port}`, prefix: root, connectMs: 1_000 },
      { limitMs: 2_500 },
    );
    await put(own, "");
    await guard.write(source(1n), [{ set: own, data: "1" }]);
    proxy.cut("replies");
    expect(await reasonOf(guard.write(source(1n), [{ set: own, data: "2" }]))).toMatchObject({
      code: "GUARD_UNAVAILABLE",
      applied: "unknown",
      resource: "ledger",
    });
    expect(await dataAt(own)).toBe("2");
    await proxy.heal();
    // The same holder is still admitted, and a former one is still rejected.
    await guard.write(source(1n), [{ set: own, data: "3" }]);
    await direct.advance(source(2n));
    await expect(guard.write(source(1n), [{ set: own, data: "late" }])).rejects.toMatchObject(
      stale(1n, 2n),
    );
    expect(await dataAt(own)).toBe("3");
    await Promise.all([guard.close(), direct.close()]);
  });

  test('an unreachable server is reported as "no", and the guard works when it is back', async () => {
    const { guard: direct, root, own } = fresh();
    await direct.close();
    await put(own, "");
    await using proxy = await startProxy(server());
    const guard = zookeeperGuard(
      { url: `zookeeper://127.0.0.1:${proxy.port}`, prefix: root, connectMs: 1_000 },
      { limitMs: 2_500 },
    );
    proxy.refuse();
    expect(await reasonOf(guard.write(source(1n), [{ set: own, data: "1" }]))).toMatchObject({
      code: "GUARD_UNAVAILABLE",
      applied: "no",
      resource: "ledger",
    });
    await proxy.heal();
    await guard.write(source(1n), [{ set: own, data: "2" }]);
    expect(await dataAt(own)).toBe("2");
    await guard.close();
  });
});
