// How one write to each resource is done, behind its guard and bare. The stopped holder and its successor use the same;
// every write adds its token to a log that the resource itself keeps in order.

import { appendFileSync } from "node:fs";
import { Redis } from "ioredis";
import { Pool } from "pg";
import { loadDriver } from "../../src/clients/sqlite/driver.ts";
import { CREATE, create } from "../../src/clients/zookeeper/messages.ts";
import { etcdGuard } from "../../src/guards/etcd/index.ts";
import { fileGuard } from "../../src/guards/file/index.ts";
import type { TokenSource } from "../../src/guards/guard.ts";
import { fencedFetch } from "../../src/guards/http/index.ts";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import { redisGuard } from "../../src/guards/redis/index.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { zookeeperGuard } from "../../src/guards/zookeeper/index.ts";
import { callEtcd } from "../../test/servers/etcd-gateway.ts";
import { Console } from "../../test/support/stores/zookeeper-nodes.ts";

export type ResourceName = "sqlite" | "file" | "http" | "redis" | "postgres" | "etcd" | "zookeeper";

/** What a writer has to know; it travels to the holder's process as JSON. */
export interface Place {
  readonly resource: ResourceName;
  /** A path, or a URL. */
  readonly at: string;
  /** Tells lanes apart that share a server. */
  readonly name: string;
  readonly isGuarded: boolean;
  /** Whether this writer is going to be stopped, perhaps inside a transaction. */
  readonly isStopped: boolean;
}

export interface Writer {
  /** How many writes a busy holder has under way at once. */
  readonly inFlight: number;
  write(source: TokenSource): Promise<void>;
  /** What acquire({ guards }) would do between the grant and the first write. */
  advance(source: TokenSource): Promise<void>;
  close(): Promise<void>;
}

const unguarded = async (): Promise<void> => undefined;

export const openWriter: Readonly<Record<ResourceName, (place: Place) => Promise<Writer>>> = {
  sqlite: async ({ at, isGuarded }) => {
    const database = (await loadDriver()).open(at);
    database.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL");
    database.exec("CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, token TEXT)");
    const insert = database.prepare("INSERT INTO entry (token) VALUES (?)");
    const guard = isGuarded ? sqliteGuard(database) : undefined;
    const add = (token: bigint): void => void insert.run(String(token));
    return {
      inFlight: 1,
      write: async (source) => {
        if (guard === undefined) add(source.token);
        else guard.transaction(source, () => add(source.token));
      },
      advance: async (source) => guard?.advance(source),
      close: async () => database.close(),
    };
  },

  file: async ({ at, isGuarded }) => {
    const guard = fileGuard(at);
    return {
      inFlight: 1,
      write: async (source) => {
        const line = `${source.token}\n`;
        if (isGuarded) await guard.append(source, line);
        else appendFileSync(at, line);
      },
      advance: isGuarded ? (source) => guard.advance(source) : unguarded,
      close: () => guard.close(),
    };
  },

  http: async ({ at, isGuarded }) => {
    const send = fencedFetch();
    return {
      inFlight: 8,
      write: async (source) => {
        const init = { method: "PUT", body: String(source.token) };
        const answer = await (isGuarded ? send(at, { ...init, lease: source }) : fetch(at, init));
        await answer.text();
      },
      advance: unguarded,
      close: unguarded,
    };
  },

  redis: async ({ at, name, isGuarded }) => {
    const client = new Redis(at, { maxRetriesPerRequest: null });
    client.on("error", () => undefined);
    const guard = redisGuard(client, { prefix: `{${name}}:guard` });
    const key = `{${name}}:log`;
    return {
      inFlight: 8,
      write: async ({ resource, token }) => {
        if (!isGuarded) await client.rpush(key, String(token));
        else {
          const lua = "redis.call('RPUSH', KEYS[1], ARGV[1])";
          await guard.script({ resource, token }, lua, { keys: [key], args: [token] });
        }
      },
      advance: isGuarded ? guard.advance : unguarded,
      close: async () => client.disconnect(),
    };
  },

  postgres: async ({ at, name, isGuarded, isStopped }) => {
    const pool = new Pool({ connectionString: at, max: 4 });
    pool.on("error", () => undefined);
    // A holder that is stopped inside a transaction keeps its successor waiting for so long, and no longer.
    // Its successor is not stopped, only starved where there are few cores.
    const idleLimitMs = isStopped ? 300 : 5_000;
    const guard = postgresGuard(pool, { schema: `${name}_guard`, idleLimitMs });
    const insert = `INSERT INTO ${name} (token) VALUES ($1)`;
    return {
      inFlight: 4,
      write: async (source) => {
        const values = [String(source.token)];
        if (isGuarded) await guard.transaction(source, (tx) => tx.query(insert, values));
        else await pool.query(insert, values);
      },
      advance: isGuarded ? (source) => guard.advance(source) : unguarded,
      close: () => pool.end(),
    };
  },

  etcd: async ({ at, name, isGuarded }) => {
    const guard = etcdGuard(`${at}/${name}`);
    const address = addressOf(at);
    let written = 0;
    return {
      inFlight: 8,
      write: async (source) => {
        written += 1;
        const key = `${name}-log/${source.token}-${process.pid}-${written}`;
        const value = String(source.token);
        if (isGuarded) await guard.write(source, [{ put: key, value }]);
        else await callEtcd(address, "/v3/kv/put", { key: inBase64(key), value: inBase64(value) });
      },
      advance: isGuarded ? (source) => guard.advance(source) : unguarded,
      close: () => guard.close(),
    };
  },

  zookeeper: async ({ at, name, isGuarded }) => {
    const guard = zookeeperGuard(`${at}/${name}`);
    let bare = isGuarded ? undefined : await Console.open(addressOf(at));
    const acl = { scheme: "world", id: "anyone" };
    return {
      inFlight: 8,
      write: async (source) => {
        // The server numbers the nodes in the order in which it takes them.
        const path = `/${name}-log/${source.token}-`;
        // Sends no pings: the server ends it when a trial takes long.
        if (bare?.wire.hasEnded) bare = await Console.open(addressOf(at));
        if (bare === undefined) await guard.write(source, [{ create: path, sequential: true }]);
        else await bare.send(create({ path, data: "", acl, flags: CREATE.persistentSequential }));
      },
      advance: isGuarded ? (source) => guard.advance(source) : unguarded,
      close: async () => {
        await bare?.[Symbol.asyncDispose]();
        await guard.close();
      },
    };
  },
};

function addressOf(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

function inBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}
