// The resources of the proof, one entry each: how to set one up for a group of trials, where its
// writers find it, and how to read the order in which tokens were written, without any guard.

import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Pool } from "pg";
import { loadDriver } from "../../src/clients/sqlite/driver.ts";
import { httpGuard } from "../../src/guards/http/index.ts";
import { memoryGuard } from "../../src/guards/memory/index.ts";
import { type EtcdServer, startEtcd } from "../../test/servers/etcd.ts";
import { startPostgres } from "../../test/servers/postgres.ts";
import { startProxy, type TcpProxy } from "../../test/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../test/servers/redis.ts";
import { startZooKeeper } from "../../test/servers/zookeeper.ts";
import { Console } from "../../test/support/stores/zookeeper-nodes.ts";
import { RESOURCE } from "./messages.ts";
import type { ResourceName } from "./writers.ts";

interface Setup {
  readonly folder: string;
  readonly name: string;
  readonly isGuarded: boolean;
}

export interface OpenResource {
  /** Where the successor writes. */
  readonly at: string;
  /** Where the holder writes: through a proxy where there is a network. */
  readonly holderAt: string;
  /** Can hold back what the holder has sent, as socket buffers do. */
  readonly proxy?: TcpProxy | undefined;
  /** A pause between writes, for a holder that would nearly always be inside a lock. @default 0 */
  readonly paceMs?: number | undefined;
  /**
   * SQLite files whose lock a stopped process must not keep, because it would block its successor.
   */
  readonly locks: readonly string[];
  /** The tokens in the order in which the resource accepted them. */
  tokens(): Promise<bigint[]>;
  close(): Promise<void>;
}

export interface Resource {
  /** Called once for all groups. */
  start(): Promise<{ open(setup: Setup): Promise<OpenResource>; close(): Promise<void> }>;
}

const doNothing = async (): Promise<void> => undefined;

export const resources: Readonly<Record<ResourceName, Resource>> = {
  sqlite: {
    start: async () => ({
      close: doNothing,
      open: async ({ folder }) => {
        const at = join(folder, "data.db");
        const tokens = async (): Promise<bigint[]> => {
          const database = (await loadDriver()).open(at);
          const rows = database.prepare("SELECT token FROM entry ORDER BY id").all();
          database.close();
          return rows.map((row) => BigInt(String(row.token)));
        };
        return { at, holderAt: at, locks: [at], tokens, close: doNothing };
      },
    }),
  },

  file: {
    start: async () => ({
      close: doNothing,
      open: async ({ folder }) => {
        const at = join(folder, "data.log");
        const lines = (): string[] => (existsSync(at) ? readFileSync(at, "utf8").split("\n") : []);
        const tokens = async (): Promise<bigint[]> => lines().filter(Boolean).map(BigInt);
        // Each append waits for the disk several times while it holds the lock.
        return { at, holderAt: at, paceMs: 5, locks: [`${at}.tenure`], tokens, close: doNothing };
      },
    }),
  },

  http: {
    start: async () => ({ close: doNothing, open: async ({ isGuarded }) => openHttp(isGuarded) }),
  },

  redis: {
    start: async () => {
      const server: RedisServer = await startRedis({ own: true });
      return {
        close: async () => server[Symbol.asyncDispose](),
        open: async ({ name }) => {
          const proxy = await startProxy(server);
          const tokens = async (): Promise<bigint[]> => {
            const log = await server.command("LRANGE", `{${name}}:log`, "0", "-1");
            return (log as string[]).map(BigInt);
          };
          const close = (): Promise<void> => proxy[Symbol.asyncDispose]();
          return { at: server.url, holderAt: proxy.url, proxy, locks: [], tokens, close };
        },
      };
    },
  },

  postgres: {
    start: async () => {
      const server = await startPostgres({ own: true });
      const pool = new Pool({ connectionString: server.url, max: 2 });
      pool.on("error", () => undefined);
      return {
        close: async () => {
          await pool.end();
          await server[Symbol.asyncDispose]();
        },
        open: async ({ name }) => {
          await pool.query(`CREATE TABLE ${name} (id bigserial PRIMARY KEY, token numeric(39))`);
          const tokens = async (): Promise<bigint[]> => {
            const { rows } = await pool.query(`SELECT token::text FROM ${name} ORDER BY id`);
            return rows.map((row: { token: string }) => BigInt(row.token));
          };
          return { at: server.url, holderAt: server.url, locks: [], tokens, close: doNothing };
        },
      };
    },
  },

  etcd: {
    start: async () => {
      const server = await startEtcd({ own: true });
      return {
        close: async () => server[Symbol.asyncDispose](),
        open: async ({ name }) => {
          const proxy = await startProxy(server);
          const tokens = (): Promise<bigint[]> => readEtcdLog(server, name);
          const close = (): Promise<void> => proxy[Symbol.asyncDispose]();
          return { at: server.url, holderAt: proxy.url, proxy, locks: [], tokens, close };
        },
      };
    },
  },

  zookeeper: {
    start: async () => {
      const server = await startZooKeeper({ own: true });
      return {
        close: async () => server[Symbol.asyncDispose](),
        open: async ({ name }) => {
          const proxy = await startProxy(server);
          await using console = await Console.open(server);
          await console.create(`/${name}-log`);
          const tokens = async (): Promise<bigint[]> => {
            await using reader = await Console.open(server);
            const nodes = (await reader.children(`/${name}-log`)).map((node) => node.split("-"));
            nodes.sort(([, one = ""], [, other = ""]) => Number(one) - Number(other));
            return nodes.map(([token = ""]) => BigInt(token));
          };
          const close = (): Promise<void> => proxy[Symbol.asyncDispose]();
          return { at: server.url, holderAt: proxy.url, proxy, locks: [], tokens, close };
        },
      };
    },
  },
};

/** Each key is written once, so the order of revisions is the order of writes. */
async function readEtcdLog(server: EtcdServer, name: string): Promise<bigint[]> {
  const toBase64 = (text: string): string => Buffer.from(text).toString("base64");
  const { kvs = [] } = (await server.call("/v3/kv/range", {
    key: toBase64(`${name}-log/`),
    range_end: toBase64(`${name}-log0`),
    sort_order: "ASCEND",
    sort_target: "MOD",
  })) as { kvs?: { value: string }[] };
  return kvs.map(({ value }) => BigInt(Buffer.from(value, "base64").toString()));
}

/**
 * Its handlers yield once, so that a newer request can arrive while an older one is in progress.
 */
async function openHttp(isGuarded: boolean): Promise<OpenResource> {
  const log: bigint[] = [];
  const fence = httpGuard({ guard: memoryGuard(), resource: RESOURCE });
  const handler: Parameters<typeof createServer>[1] = async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    await new Promise((resolve) => setImmediate(resolve));
    log.push(BigInt(body));
    response.end();
  };
  const server = createServer(isGuarded ? fence.guarded(handler) : handler);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const proxy = await startProxy({ url });
  return {
    at: url,
    holderAt: proxy.url,
    proxy,
    locks: [],
    tokens: async () => log,
    close: async () => {
      await proxy[Symbol.asyncDispose]();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
