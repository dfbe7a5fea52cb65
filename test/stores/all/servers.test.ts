// Goal: every engine that the stores are tested on starts here, answers, and survives what the
// fault tests do to it: it is killed and started again on the same data, or frozen and thawed.
// Nothing of it remains afterwards. Method: real servers, queried in their own protocol by the
// harness in test/servers, without any store or client library.
import { existsSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ask, until } from "../../servers/ask.ts";
import { type EtcdServer, startEtcd, startEtcdCluster } from "../../servers/etcd.ts";
import { type PostgresServer, startPostgres } from "../../servers/postgres.ts";
import { findTree, isRunning } from "../../servers/process-tree.mjs";
import { startProxy } from "../../servers/proxy.ts";
import { type RedisServer, startRedis, startRedisPair } from "../../servers/redis.ts";
import type { RunningServer } from "../../servers/server.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../servers/zookeeper.ts";

interface Sample {
  readonly name: string;
  readonly start: () => Promise<RunningServer>;
  /** Stores one value, durably. */
  readonly write: (server: never) => Promise<unknown>;
  readonly read: (server: never) => Promise<unknown>;
  readonly value: unknown;
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");

const samples: Sample[] = [
  {
    name: "redis",
    start: () => startRedis({ appendonly: true, appendfsync: "always" }),
    write: (server: RedisServer) => server.command("SET", "key", "value"),
    read: (server: RedisServer) => server.command("GET", "key"),
    value: "value",
  },
  {
    name: "etcd",
    start: () => startEtcd({ fastElections: true }),
    write: (server: EtcdServer) =>
      server.call("/v3/kv/put", { key: base64("key"), value: base64("value") }),
    read: async (server: EtcdServer) =>
      (await server.call("/v3/kv/range", { key: base64("key") })).count,
    value: "1",
  },
  {
    name: "postgres",
    start: () => startPostgres({ own: true }),
    write: (server: PostgresServer) => server.sql("create table made (); select pg_backend_pid()"),
    read: (server: PostgresServer) => server.sql("select to_regclass('made')"),
    value: "made",
  },
  {
    name: "zookeeper",
    start: () => startZooKeeper({ own: true }),
    write: (server: ZooKeeperServer) => createNode(server, "/key"),
    read: async (server: ZooKeeperServer) => /Node count: \d+/.exec(await server.word("srvr"))?.[0],
    value: "Node count: 6",
  },
];

describe.each(samples)("$name", ({ start, write, read, value }) => {
  const running = useServer(start);

  test("the server answers on the loopback address, from its own folder", async () => {
    const server = running();
    expect(server.url).toMatch(new RegExp(`127\\.0\\.0\\.1:${server.port}`));
    expect(await server.answers()).toBe(true);
    expect(existsSync(server.folder)).toBe(true);
    expect(server.readyMs).toBeGreaterThan(0);
    expect(server.cpuSeconds()).toBeGreaterThanOrEqual(0);
  });

  test("the server has its data again after a kill and a start", async () => {
    const server = running();
    await write(server as never);
    const [pid, port] = [server.pid, server.port];
    const tree = findTree(pid);
    await server.kill();
    expect(server.pid).toBeNaN();
    expect(tree.filter(isRunning)).toEqual([]);
    expect(await server.answers()).toBe(false);
    await server.start();
    expect(server.pid).not.toBe(pid);
    expect(server.port).toBe(port);
    expect(await read(server as never)).toBe(value);
  });

  test("a paused server is silent, and answers when it is resumed", async () => {
    const server = running();
    await server.pause();
    expect(await server.answers(150)).toBe(false);
    await server.resume();
    await until("it answers again", () => server.answers(), 10_000);
    expect(await read(server as never)).toBe(value);
  });

  test("the server has its data again after a stop, even if it was paused", async () => {
    const server = running();
    await server.pause();
    await server.stop();
    expect(server.pid).toBeNaN();
    await server.start();
    expect(await read(server as never)).toBe(value);
  });

  test("disposing of the server leaves no process and no files", async () => {
    const server = running();
    const tree = findTree(server.pid);
    await server[Symbol.asyncDispose]();
    expect(tree.filter(isRunning)).toEqual([]);
    expect(existsSync(server.folder)).toBe(false);
    expect(await server.answers()).toBe(false);
  });
});

/** Creates a persistent node in one session: two frames of ZooKeeper's protocol. */
async function createNode(server: ZooKeeperServer, path: string): Promise<void> {
  const int = (value: number): Buffer => Buffer.from(Int32Array.of(value).buffer).swap32();
  const text = (value: string): Buffer => Buffer.concat([int(value.length), Buffer.from(value)]);
  const frame = (...parts: Buffer[]): Buffer => {
    const body = Buffer.concat(parts);
    return Buffer.concat([int(body.length), body]);
  };
  // Protocol 0, no zxid seen, timeout 5 s, session 0, 16 bytes of password.
  const hello = frame(
    int(0),
    Buffer.alloc(8),
    int(5_000),
    Buffer.alloc(8),
    int(16),
    Buffer.alloc(16),
  );
  const anyone = [int(1), int(31), text("world"), text("anyone")];
  const create = frame(int(1), int(1), text(path), text(""), ...anyone, int(0));
  const error = await ask(
    server,
    Buffer.concat([hello, create]),
    (answer) => {
      const second = answer.length < 4 ? undefined : 4 + answer.readInt32BE(0);
      if (second === undefined || answer.length < second + 20) return undefined;
      return answer.readInt32BE(second + 16);
    },
    5_000,
  );
  expect(error).toBe(0);
}

describe("a proxy", () => {
  const redis = useServer(startRedis);

  test("a server is reachable through the proxy, except while the proxy is cut", async () => {
    await using proxy = await startProxy(redis());
    const ping = (): Promise<string | undefined> =>
      ask(proxy, "PING\r\n", (answer) => answer.toString().trim(), 300);
    expect(await ping()).toBe("+PONG");
    proxy.cut();
    expect(await ping()).toBeUndefined();
    await proxy.heal();
    expect(await ping()).toBe("+PONG");
  });
});

describe("the server that all tests of a run share", () => {
  const first = useServer(startPostgres);
  const second = useServer(startPostgres);
  beforeEach((context) => {
    const { givenBy } = first();
    if (givenBy !== undefined)
      context.skip(`${givenBy} names a server, which this run uses instead`);
  });

  test("all tests use the same server, none can stop it, and on PostgreSQL each has its own database", async () => {
    expect(first()).toMatchObject({ port: second().port, givenBy: undefined, folder: "" });
    expect(first().url).not.toBe(second().url);
    await first().sql("CREATE TABLE seen ()");
    await expect(second().sql("SELECT FROM seen")).rejects.toThrow(
      'relation "seen" does not exist',
    );
    await expect(first().kill()).rejects.toThrow("has to set { own: true }");
  });

  test("a test that passes options gets its own server", async () => {
    await using own = await startPostgres({ own: true });
    expect(own.port).not.toBe(first().port);
    await own.kill();
    expect(await first().sql("SELECT 1")).toBe("1");
  });
});

describe("a server that an environment variable names", () => {
  const redis = useServer(startRedis, { own: true });
  afterEach(() => void vi.unstubAllEnvs());

  test("the server is used as it is, and tests cannot stop it", async () => {
    vi.stubEnv("TENURE_TEST_REDIS", redis().url);
    await using given = await startRedis();
    expect(given).toMatchObject({ url: redis().url, port: redis().port, folder: "" });
    expect(given.givenBy).toBe("TENURE_TEST_REDIS");
    expect(await given.command("PING")).toBe("PONG");
    await expect(given.pause()).rejects.toThrow("TENURE_TEST_REDIS");
    await expect(given.kill()).rejects.toThrow("TENURE_TEST_REDIS");
  });

  test("a test that needs options or control over the server fails with the reason", async () => {
    vi.stubEnv("TENURE_TEST_REDIS", redis().url);
    await expect(startRedis({ appendonly: true })).rejects.toThrow("TENURE_TEST_REDIS names");
    await expect(startRedisPair()).rejects.toThrow("TENURE_TEST_REDIS names");
    vi.stubEnv("TENURE_TEST_ETCD", "etcd://127.0.0.1:1");
    await expect(startEtcdCluster()).rejects.toThrow("TENURE_TEST_ETCD names");
  });

  test("a server that does not answer is an error, not a skip", async () => {
    vi.stubEnv("TENURE_TEST_REDIS", "redis://:secret@127.0.0.1:1");
    await expect(startRedis()).rejects.toThrow(
      "TENURE_TEST_REDIS=redis://:***@127.0.0.1:1 answers",
    );
  });
});
