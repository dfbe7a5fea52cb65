// The servers of a run: one of each engine, started when first needed and shared by all topics. For
// topics that compare requests instead of times there is a second one that counts what it is asked,
// because counting slows it down.

import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { startEtcd } from "../test/servers/etcd.ts";
import { needEngine } from "../test/servers/given.ts";
import { startPostgres } from "../test/servers/postgres.ts";
import { startRedis } from "../test/servers/redis.ts";
import { etcdMessages, postgresRequests, zookeeperRequests } from "../test/servers/requests.ts";
import { disposeAll, type RunningServer } from "../test/servers/server.ts";
import { startZooKeeper } from "../test/servers/zookeeper.ts";

export type ServerEngine = "redis" | "postgres" | "etcd" | "zookeeper";
/** SQLite needs no server: its URL is that of a file, and that of its peers is a folder. */
export type Engine = "sqlite" | ServerEngine;

export const serverEngines: readonly ServerEngine[] = ["redis", "postgres", "etcd", "zookeeper"];
export const engines: readonly Engine[] = ["sqlite", ...serverEngines];

export const labels: Readonly<Record<Engine, string>> = {
  sqlite: "SQLite",
  redis: "Redis",
  postgres: "PostgreSQL",
  etcd: "etcd",
  zookeeper: "ZooKeeper",
};

/** Advisory locks need a connection per waiter, and many locks on one connection. */
const POSTGRES = { max_connections: "300", max_locks_per_transaction: "128" } as const;

const starts: Readonly<Record<ServerEngine, () => Promise<RunningServer>>> = {
  redis: () => startRedis({ own: true }),
  postgres: () => startPostgres({ settings: POSTGRES }),
  etcd: () => startEtcd({ own: true }),
  zookeeper: () => startZooKeeper({ own: true }),
};

interface CountedServer {
  readonly url: string;
  /** Requests since the server was started. */
  requests(): Promise<number>;
}

export class Servers implements AsyncDisposable {
  readonly folder: string;
  readonly #running = new Map<ServerEngine, Promise<RunningServer>>();
  readonly #counted = new Map<ServerEngine, Promise<CountedServer>>();
  readonly #disposables: AsyncDisposable[] = [];

  /** `folder`: for files of SQLite and of the locks that need no server. */
  constructor(folder: string) {
    this.folder = folder;
  }

  start(engine: ServerEngine): Promise<RunningServer> {
    const running = this.#running.get(engine) ?? this.#keep(starts[engine]());
    this.#running.set(engine, running);
    return running;
  }

  /** The server's URL; for SQLite, the folder. */
  async url(engine: Engine): Promise<string> {
    return engine === "sqlite" ? this.folder : (await this.start(engine)).url;
  }

  /** A server that counts requests; for SQLite, only another folder. */
  async counted(engine: Engine): Promise<Partial<CountedServer> & { readonly url: string }> {
    if (engine === "sqlite") {
      const url = join(this.folder, "counted");
      mkdirSync(url, { recursive: true });
      return { url };
    }
    const counted = this.#counted.get(engine) ?? this.#startCounted(engine);
    this.#counted.set(engine, counted);
    return counted;
  }

  async #startCounted(engine: ServerEngine): Promise<CountedServer> {
    if (engine === "redis") {
      const server = await this.#keep(startRedis({ own: true }));
      const monitor = await openMonitor(server);
      this.#disposables.push({ [Symbol.asyncDispose]: async () => monitor.close() });
      return { url: server.url, requests: monitor.count };
    }
    if (engine === "postgres") {
      const settings = { ...POSTGRES, log_statement: "all" };
      const server = await this.#keep(startPostgres({ settings }));
      return { url: server.url, requests: () => postgresRequests(server) };
    }
    if (engine === "etcd") {
      const server = await this.#keep(startEtcd({ own: true }));
      return { url: server.url, requests: () => etcdMessages(server) };
    }
    const server = await this.#keep(startZooKeeper({ own: true }));
    return { url: server.url, requests: () => zookeeperRequests(server) };
  }

  async #keep<S extends RunningServer>(starting: Promise<S>): Promise<S> {
    const server = await starting;
    this.#disposables.push(server);
    return server;
  }

  /** "redis 7.0.15" for each engine that was started. */
  versions(): Promise<string[]> {
    const started = serverEngines.filter(
      (engine) => this.#running.has(engine) || this.#counted.has(engine),
    );
    return Promise.all(
      started.map(async (engine) => `${engine} ${(await needEngine(engine)).version}`),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await disposeAll(this.#disposables.splice(0));
  }
}

/**
 * Counts the commands that clients send. The server's own statistics also count the commands inside
 * scripts; MONITOR marks those with "lua".
 */
async function openMonitor({ host, port }: RunningServer): Promise<{
  count(): Promise<number>;
  close(): void;
}> {
  const socket = connect(port, host);
  await once(socket, "connect");
  let count = 0;
  createInterface({ input: socket }).on("line", (line) => {
    if (line.includes(" [") && !line.includes(" lua] ")) count += 1;
  });
  socket.on("error", () => undefined);
  socket.write("MONITOR\r\n");
  return {
    count: async () => {
      // MONITOR reports a command a little after it was answered.
      await sleep(100);
      return count;
    },
    close: () => socket.destroy(),
  };
}
