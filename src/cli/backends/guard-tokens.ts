// Opens a guard of any kind for `tenure guard reset`. guarded-database.ts opens PostgreSQL and
// SQLite; this file opens Redis, etcd, ZooKeeper and files, which have no tables to protect.

import { existsSync } from "node:fs";
import { systemParts } from "../../runtime/system.ts";
import { CommandError, UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";
import { hideExperimentalWarnings } from "../node-warnings.ts";
import type { Options } from "../parsing/arguments.ts";
import {
  type GuardTokens,
  openDatabase,
  parseDatabaseUrl,
  throwUnreachable,
} from "./guarded-database.ts";

const LIMIT_MS = 5_000;

export async function openTokens(options: Options): Promise<GuardTokens> {
  const { url, scheme } = parseDatabaseUrl(options);
  const guard = options.text("guard");
  if (/^rediss?(\+sentinel)?$/.test(scheme)) return openRedis(url, guard);
  if (scheme === "file") return openFile(url.slice("file:".length), guard);
  if (url === "" || /^(postgres|postgresql|sqlite)$/.test(scheme)) return openDatabase(options);
  const isEtcd = scheme === "etcd" || scheme === "etcds";
  if (!isEtcd && scheme !== "zookeeper") {
    throw new UsageError(
      "--database must be a postgres:, sqlite:, redis:, etcd:, zookeeper: or file: URL of the place where the guard keeps its tokens.",
    );
  }
  if (guard !== undefined) {
    throw new UsageError(
      `Remove --guard: the path of the ${scheme}: URL is the prefix of the guard.`,
    );
  }
  return isEtcd ? openEtcd(url) : openZooKeeper(url);
}

async function openEtcd(url: string): Promise<GuardTokens> {
  // Prints a warning about the version of etcd without a stack.
  hideExperimentalWarnings();
  const { etcdGuard, resetHighest } = await import("../../guards/etcd/index.ts");
  return toTokens(etcdGuard(url), (resource, highest) => resetHighest(url, resource, { highest }));
}

async function openZooKeeper(url: string): Promise<GuardTokens> {
  const { resetHighest, zookeeperGuard } = await import("../../guards/zookeeper/index.ts");
  return toTokens(zookeeperGuard(url), (resource, highest) =>
    resetHighest(url, resource, { highest }),
  );
}

function toTokens(
  guard: Pick<GuardTokens, "highest" | "close">,
  reset: GuardTokens["reset"],
): GuardTokens {
  return { highest: (resource) => guard.highest(resource), reset, close: () => guard.close() };
}

async function openFile(rest: string, ledger: string | undefined): Promise<GuardTokens> {
  hideExperimentalWarnings();
  const { fileGuard, resetHighest } = await import("../../guards/file/index.ts");
  const path = rest.startsWith("//") ? rest.slice(2) : rest;
  const { checkPlace } = await import("../../clients/sqlite/file-identity.ts");
  if (path === "") throw new UsageError("A file: URL needs the path of the guarded file.");
  // The same path that fileGuard() uses, with symbolic links resolved.
  const place = ledger ?? `${checkPlace(path, { allowNetworkFileSystem: false })}.tenure`;
  // Opening a missing ledger would create it.
  if (!existsSync(place)) throw new UsageError(`The file ${JSON.stringify(place)} does not exist.`);
  return toTokens(fileGuard(path, { ledger }), (resource, highest) =>
    resetHighest(path, resource, { ledger, highest }),
  );
}

/** Uses the connection layer of the Redis store, wrapped to look like a client of ioredis. */
async function openRedis(url: string, prefix: string | undefined): Promise<GuardTokens> {
  const { redisGuard, resetHighest } = await import("../../guards/redis/index.ts");
  const { parseRedisUrl } = await import("../../clients/redis/url.ts");
  const { checkLibraryName } = await import("../../clients/shared/options.ts");
  const { LIBRARIES, loadLibrary } = await import("../../clients/redis/wire.ts");
  const { place, options } = parseRedisUrl(url);
  if (options.prefix !== undefined) {
    throw new UsageError(
      "The parameter prefix in a redis: URL is the prefix of a store. Use --guard PREFIX instead.",
    );
  }
  const library = await loadLibrary(checkLibraryName(options.library, LIBRARIES), place.kind);
  const noAnswer = `Redis at ${place.shown} did not answer within ${LIMIT_MS} ms.`;
  const unchanged = `${noAnswer} Nothing was changed.`;
  const connecting = library.connect({ place, connectMs: LIMIT_MS, tls: undefined });
  const wire = await withTimeout(
    connecting.catch((error: unknown) => throwUnreachable(place.shown, error)),
    unchanged,
  );
  const script =
    (command: string) =>
    (text: string, keys: number, ...words: (string | Buffer)[]): Promise<unknown> =>
      withTimeout(
        wire.send([command, text, String(keys), ...words.map(String)], String(words[0])),
        `${noAnswer} Whether the guard was reset is unknown: run the command again.`,
      );
  const client = {
    isCluster: wire.isCluster,
    get: (key: string) => withTimeout(wire.send(["GET", key], key), unchanged),
    evalsha: script("EVALSHA"),
    eval: script("EVAL"),
  };
  return {
    highest: (resource) => redisGuard(client, { prefix }).highest(resource),
    reset: (resource, highest) => resetHighest(client, resource, { prefix, highest }),
    close: async () => wire.close(),
  };
}

/** Rejects after LIMIT_MS. The timer also keeps the process alive, unlike the connection. */
function withTimeout<T>(answer: Promise<T>, late: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = systemParts().clock.setTimer(
      () => reject(new CommandError(late, EXIT.unavailable, { code: "DATABASE_UNAVAILABLE" })),
      LIMIT_MS,
      { keepAlive: true },
    );
    answer.then(resolve, reject).finally(() => timer.cancel());
  });
}
