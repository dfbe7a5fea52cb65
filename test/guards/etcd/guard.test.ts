// Goal: the etcd guard follows the rule of all guards, does all of the writes or none, sends one
// request per write once it has read the highest, never sends a write twice, and reports errors
// that say what to change. Method: the conformance suite and real servers, with a proxy that drops
// replies; the data is read back without the guard.

import { describe, expect, test } from "vitest";
import { type EtcdGuard, etcdGuard } from "../../../src/guards/etcd/index.ts";
import { connect } from "../../../src/index.ts";
import { guardSuite } from "../../../src/testing/index.ts";
import { until } from "../../servers/ask.ts";
import { startEtcd, startEtcdCluster } from "../../servers/etcd.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { onOwnConnections } from "../../support/guards/guard-suites.ts";
import { reasonOf } from "../../support/stores/lost-replies.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";

const server = useServer(startEtcd, { own: true });

const inBase64 = (text: string): string => Buffer.from(text).toString("base64");
const fromBase64 = (text: unknown): string => Buffer.from(String(text ?? ""), "base64").toString();

interface Kv {
  readonly key: string;
  readonly value: string;
  readonly modRevision: bigint;
  /** How often the key was written. */
  readonly version: string;
}

/**
 * All keys with a prefix, in the order of their last write, read from the server without a guard.
 */
async function below(start: string): Promise<Kv[]> {
  const end = start.slice(0, -1) + String.fromCharCode(start.charCodeAt(start.length - 1) + 1);
  const answer = await server().call("/v3/kv/range", {
    key: inBase64(start),
    range_end: inBase64(end),
    sort_order: "ASCEND",
    sort_target: "MOD",
  });
  return ((answer.kvs ?? []) as Record<string, unknown>[]).map((kv) => ({
    key: fromBase64(kv.key),
    value: fromBase64(kv.value),
    modRevision: BigInt(String(kv.mod_revision)),
    version: String(kv.version),
  }));
}

const put = (key: string, value: string): Promise<unknown> =>
  server().call("/v3/kv/put", { key: inBase64(key), value: inBase64(value) });

const source = (token: bigint, resource = "ledger") => ({ resource, token });
const stale = (offered: bigint, highest: bigint) => ({
  code: "STALE_TOKEN",
  resource: "ledger",
  offered,
  highest,
});

let lines = 0;
guardSuite(
  onSharedServer,
  onOwnConnections({
    name: "etcd",
    server,
    open: (place, options) => etcdGuard(`${server().url}/${place}`, options),
    write: (guard, given, { place, resource, text, fail }) => {
      lines += 1;
      const key = `data-${place}/${resource.length}:${resource}/${lines}`;
      // The etcd lease does not exist, so etcd rejects the whole transaction.
      const leaseId = fail ? 12_345n : undefined;
      const writes = [
        { put: key, value: text },
        { put: `${key}+`, value: "", leaseId },
        { delete: `${key}-` },
      ];
      return given === undefined ? guard.write(writes) : guard.write(given, writes);
    },
    written: async (place, resource) =>
      (await below(`data-${place}/${resource.length}:${resource}/`))
        .filter(({ key }) => !key.endsWith("+"))
        .map(({ value }) => value),
  }),
);

let prefixes = 0;
function fresh(): { guard: EtcdGuard; prefix: string; url: string } {
  prefixes += 1;
  const prefix = `p${prefixes}/`;
  const url = `${server().url}/${prefix}`;
  return { guard: etcdGuard(url), prefix, url };
}

describe("the etcd guard", () => {
  test("S2: puts, deletes and whole prefixes are one step, and a stale token does none of them", async () => {
    const { guard, prefix } = fresh();
    await put("mine/old/1", "1");
    await put("mine/old/2", "2");
    const { revision } = await guard.write(source(5n), [
      { put: "mine/a", value: "text" },
      { put: new Uint8Array([109, 105, 110, 101, 47, 98]), value: new Uint8Array([1, 2]) },
      { deletePrefix: "mine/old/" },
    ]);
    const kept = await below("mine/");
    expect(kept.map(({ key, value }) => [key, value])).toEqual([
      ["mine/a", "text"],
      ["mine/b", "\u0001\u0002"],
    ]);
    expect(kept.map((kv) => kv.modRevision)).toEqual([revision, revision]);
    const late = guard.write(source(4n), [{ put: "mine/a", value: "late" }, { delete: "mine/b" }]);
    await expect(late).rejects.toMatchObject(stale(4n, 5n));
    expect(await below("mine/")).toEqual(kept);
    expect((await below(`${prefix}g/`)).map(({ key, value }) => [key, value])).toEqual([
      [`${prefix}g/ledger`, "5".padStart(39, "0")],
    ]);
    await guard.close();
  });

  test("a prefix of 0xff bytes covers all keys to the end, and no lower ones", async () => {
    const { guard } = fresh();
    const [last, before] = [new Uint8Array([255, 255, 1]), new Uint8Array([255, 254])];
    await guard.write(source(1n), [
      { put: last, value: "1" },
      { put: before, value: "1" },
    ]);
    await guard.write(source(1n), [{ deletePrefix: new Uint8Array([255, 255]) }]);
    const count = async (key: Uint8Array): Promise<unknown> =>
      (await server().call("/v3/kv/range", { key: Buffer.from(key).toString("base64") })).count;
    expect([await count(last), await count(before)]).toEqual([undefined, "1"]);
    await guard.close();
  });

  test("S2: the transaction itself rejects a guard with an outdated highest token", async () => {
    const { guard, url } = fresh();
    const other = etcdGuard(url);
    await guard.write(source(1n), [{ put: "seen", value: "1" }]);
    await other.advance(source(2n));
    await expect(guard.write(source(1n), [{ put: "seen", value: "late" }])).rejects.toMatchObject(
      stale(1n, 2n),
    );
    expect((await below("seen")).map(({ value }) => value)).toEqual(["1"]);
    await Promise.all([guard.close(), other.close()]);
  });

  test("a guarded write is one request once the guard has read the highest token", async () => {
    const { guard } = fresh();
    await guard.write(source(1n), [{ put: "trips", value: "0" }]);
    const revisions: bigint[] = [];
    for (let index = 1; index <= 10; index += 1) {
      const { revision } = await guard.write(source(1n), [{ put: "trips", value: String(index) }]);
      revisions.push(revision);
    }
    // No revision in between: the highest token is not written again.
    expect(revisions.map((revision) => revision - (revisions[0] ?? 0n))).toEqual(
      Array.from({ length: 10 }, (_, index) => BigInt(index)),
    );
    await guard.close();
  });

  test("S2: a malformed highest token is reported, and nothing is written", async () => {
    for (const junk of ["", "7", "x".repeat(39)]) {
      const { guard, prefix } = fresh();
      await put(`${prefix}g/ledger`, junk);
      const unusable = { code: "STORE_UNUSABLE" };
      await expect(guard.write(source(9n), [{ put: "junk", value: "1" }])).rejects.toMatchObject(
        unusable,
      );
      await expect(guard.advance(source(9n))).rejects.toMatchObject(unusable);
      await expect(guard.highest("ledger")).rejects.toMatchObject(unusable);
      expect(await below("junk")).toEqual([]);
      await guard.close();
    }
  });

  test("the next write detects a highest token that was damaged in the meantime", async () => {
    const { guard, prefix } = fresh();
    await guard.write(source(1n), [{ put: "damaged", value: "1" }]);
    await put(`${prefix}g/ledger`, "junk");
    await expect(guard.write(source(1n), [{ put: "damaged", value: "2" }])).rejects.toMatchObject({
      code: "STORE_UNUSABLE",
    });
    expect((await below("damaged")).map(({ value }) => value)).toEqual(["1"]);
    await guard.close();
  });

  test("invalid writes, and writes to Tenure's own keys, are rejected before anything is sent", async () => {
    const { guard, prefix } = fresh();
    const bad: unknown[] = [
      undefined,
      [],
      {},
      "put",
      [undefined],
      [{}],
      [{ put: "", value: "1" }],
      [{ put: "k" }],
      [{ put: "k", value: 7 }],
      [{ put: "k", value: "1", delete: "k" }],
      [{ put: "k", value: "1", leaseId: 7 }],
      [{ put: "k", value: "1", leaseId: -1n }],
      [{ put: `${prefix}g/ledger`, value: "1" }],
      [{ delete: `${prefix}l/ledger` }],
      [{ deletePrefix: prefix }],
      [{ deletePrefix: prefix.slice(0, 1) }],
      [{ deletePrefix: `${prefix}g/le` }],
      [{ deletePrefix: "" }],
    ];
    for (const writes of bad) {
      const failure = await reasonOf(guard.write(source(1n), writes as never));
      expect([writes, failure]).toMatchObject([writes, { code: "INVALID_ARGUMENT" }]);
    }
    expect(await guard.highest("ledger")).toBeUndefined();
    await guard.close();
  });

  test("writes that etcd rejects are reported as invalid input, and nothing is advanced", async () => {
    const { guard } = fresh();
    const many = Array.from({ length: 200 }, (_, index) => ({ put: `many/${index}`, value: "" }));
    const refused: [string, Parameters<EtcdGuard["write"]>[0]][] = [
      [
        "once",
        [
          { put: "twice", value: "1" },
          { put: "twice", value: "2" },
        ] as never,
      ],
      ["--max-txn-ops", many as never],
      ["--max-request-bytes", [{ put: "large", value: "x".repeat(3_000_000) }] as never],
      ["leaseId", [{ put: "leased", value: "1", leaseId: 99n }] as never],
    ];
    for (const [words, writes] of refused) {
      const failure = await reasonOf(guard.write(source(3n), writes as never));
      expect(failure).toMatchObject({ code: "INVALID_ARGUMENT", resource: "ledger" });
      expect(String(failure)).toContain(words);
    }
    expect(await guard.highest("ledger")).toBeUndefined();
    for (const start of ["twice", "many/", "large", "leased"])
      expect(await below(start)).toEqual([]);
    await guard.close();
  });

  test("invalid targets and options are rejected", () => {
    for (const target of [undefined, 7, {}, "etcd:", { url: "etcd://" }])
      expect(() => etcdGuard(target as never)).toThrow(/etcd/);
    const target = { url: "etcd://127.0.0.1:1" };
    expect(() => etcdGuard(target, { limitMs: 0 })).toThrow("limitMs");
    expect(() => etcdGuard(target, { resource: "" })).toThrow("resource name");
  });

  test("a closed guard rejects calls, and close() can be called twice", async () => {
    const { guard } = fresh();
    await guard.advance(source(1n));
    await guard.close();
    await guard.close();
    await expect(guard.advance(source(2n))).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe("with the leases in the same etcd", () => {
  test("S2: a write is rejected once its lease has ended, even without a successor", async () => {
    const { guard, url } = fresh();
    await guard.close();
    const here = etcdGuard(url, { leasesHere: true });
    await using tenure = await connect(url);
    const lease = await tenure.acquire("ledger", { guards: [here] });
    const facts = source(lease.token);
    await here.write(lease, [{ put: "here", value: "1" }]);
    for (const poison of [2n ** 127n - 1n, 2n ** 64n + lease.token, lease.token + 1n]) {
      const act = here.write(source(poison), [{ put: "here", value: "poison" }]);
      await expect(act).rejects.toMatchObject({ code: "UNTRUSTED_TOKEN", reason: "notHeld" });
    }
    expect(await here.highest("ledger")).toBe(lease.token);
    await tenure.revoke("ledger");
    const gone = { code: "UNTRUSTED_TOKEN", reason: "notHeld", resource: "ledger" };
    await expect(here.write(facts, [{ put: "here", value: "late" }])).rejects.toMatchObject(gone);
    await expect(here.advance(source(2n ** 127n - 1n))).rejects.toMatchObject(gone);
    const next = await tenure.acquire("ledger");
    await expect(here.write(facts, [{ put: "here", value: "late" }])).rejects.toMatchObject(
      stale(facts.token, next.token),
    );
    await here.write(next, [{ put: "here", value: "2" }]);
    expect((await below("here")).map(({ value }) => value)).toEqual(["2"]);
    expect(await here.highest("ledger")).toBe(next.token);
    await here.close();
  });
});

describe("when replies are lost", () => {
  test('a write without a reply is reported as "unknown", and its effect exists', async () => {
    const { guard: direct, prefix } = fresh();
    await using proxy = await startProxy(server());
    const guard = etcdGuard(`etcd://127.0.0.1:${proxy.port}/${prefix}`, { limitMs: 2_500 });
    await guard.write(source(1n), [{ put: "lost", value: "1" }]);
    proxy.cut("replies");
    const unknown = { code: "GUARD_UNAVAILABLE", applied: "unknown", resource: "ledger" };
    expect(await reasonOf(guard.write(source(1n), [{ put: "lost", value: "2" }]))).toMatchObject(
      unknown,
    );
    expect((await below("lost")).map(({ value }) => value)).toEqual(["2"]);
    await proxy.heal();
    // heal() resets the connection. A write on it, before the client has noticed, would fail.
    const reads = async (): Promise<boolean> =>
      guard.highest("ledger").then(
        () => true,
        () => false,
      );
    await until("the guard is connected again", reads, 5_000);
    // The same holder is still admitted, and a former one is still rejected.
    await guard.write(source(1n), [{ put: "lost", value: "3" }]);
    await direct.advance(source(2n));
    await expect(guard.write(source(1n), [{ put: "lost", value: "late" }])).rejects.toMatchObject(
      stale(1n, 2n),
    );
    await Promise.all([guard.close(), direct.close()]);
  });

  test("a write is not sent again when its connection breaks, so it is done at most once", async () => {
    const { guard: direct, prefix } = fresh();
    await using proxy = await startProxy(server());
    const guard = etcdGuard(`etcd://127.0.0.1:${proxy.port}/${prefix}`);
    await guard.write(source(1n), [{ put: "once", value: "1" }]);
    proxy.cut("replies");
    const writing = reasonOf(guard.write(source(1n), [{ put: "once", value: "2" }]));
    await until("etcd has taken it", async () => (await below("once"))[0]?.value === "2", 5_000);
    const isLost = async (): Promise<boolean> => proxy.counts().replies.droppedBytes > 0;
    await until("its answer is lost", isLost, 5_000);
    // Restores the connections. From here on, a second copy would be answered.
    await proxy.heal();
    expect(await writing).toMatchObject({ code: "GUARD_UNAVAILABLE", applied: "unknown" });
    expect(await below("once")).toMatchObject([{ value: "2", version: "2" }]);
    await Promise.all([guard.close(), direct.close()]);
  });

  test('an unreachable server is reported as "no", and the guard works when it is back', async () => {
    const { guard: direct, prefix } = fresh();
    await using proxy = await startProxy(server());
    const guard = etcdGuard(
      { url: `etcd://127.0.0.1:${proxy.port}`, prefix, connectMs: 1_000 },
      { limitMs: 2_500 },
    );
    proxy.refuse();
    const no = { code: "GUARD_UNAVAILABLE", applied: "no", resource: "ledger" };
    expect(await reasonOf(guard.write(source(1n), [{ put: "back", value: "1" }]))).toMatchObject(
      no,
    );
    await proxy.heal();
    await guard.write(source(1n), [{ put: "back", value: "2" }]);
    expect((await below("back")).map(({ value }) => value)).toEqual(["2"]);
    await Promise.all([guard.close(), direct.close()]);
  });
});

describe("on a cluster", () => {
  const cluster = useServer(startEtcdCluster, { fastElections: true });

  test("a write that one member delays is not sent to another, so no late copy undoes later writes", async () => {
    const [first, ...others] = cluster().members;
    if (first === undefined) throw new Error("There is no member.");
    await using proxy = await startProxy(first);
    const endpoints = [proxy, ...others].map(({ port }) => `127.0.0.1:${port}`);
    const guard = etcdGuard({ url: `etcd://${endpoints}` }, { limitMs: 3_000 });
    const direct = etcdGuard(cluster().url);
    await guard.write(source(1n), [{ put: "copy", value: "1" }]);
    // The request now stays in the socket's buffers and arrives much later.
    proxy.hold("requests");
    const kept = reasonOf(guard.write(source(1n), [{ put: "copy", value: "kept back" }]));
    expect(await kept).toMatchObject({ code: "GUARD_UNAVAILABLE", applied: "unknown" });
    const read = async (): Promise<string> => {
      const answer = await others[0]?.call("/v3/kv/range", { key: inBase64("copy") });
      const [kv] = (answer?.kvs ?? []) as { value: string }[];
      return fromBase64(kv?.value);
    };
    expect(await read()).toBe("1");
    await direct.advance(source(2n));
    await proxy.heal();
    await direct.write(source(2n), [{ put: "copy", value: "2" }]);
    expect(await read()).toBe("2");
    await Promise.all([guard.close(), direct.close()]);
  });
});
