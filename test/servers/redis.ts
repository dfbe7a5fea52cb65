// Starts Redis for tests: one server, a master with one replica, or both with a Sentinel that
// monitors them. By default nothing is saved, so a kill loses all data; `appendonly` keeps
// acknowledged writes.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Address, ask, parseAddress, until } from "./ask.ts";
import { type Certificate, makeCertificate } from "./certificate.ts";
import { findPath } from "./engine.ts";
import { findGivenServer, needEngine, type OwnOptions } from "./given.ts";
import { makeFolder } from "./launch.ts";
import { withFreePorts } from "./ports.ts";
import { encodeCommand, type ParsedReply, parseReply, type RedisReply } from "./redis-wire.ts";
import { disposeAll, type RunningServer, startServer } from "./server.ts";

export interface RedisOptions extends OwnOptions {
  /**
   * Log every write, and replay the log at start.
   * @default false
   */
  readonly appendonly?: boolean | undefined;
  /**
   * When the log is flushed to the disk.
   * @default everysec, as in Redis
   */
  readonly appendfsync?: "always" | "everysec" | "no" | undefined;
  /** Replicate this server. */
  readonly replicaOf?: RunningServer | undefined;
  readonly password?: string | undefined;
  /** Accept only TLS, with a new certificate. The URL is then rediss://. */
  readonly tls?: boolean | undefined;
  /** More arguments for redis-server, such as `["--maxmemory", "1mb"]`. */
  readonly args?: readonly string[] | undefined;
}

export interface RedisServer extends RunningServer {
  /** With `tls`: the certificate that a client has to trust. */
  readonly ca: string | undefined;
  /** Runs one command on a separate connection. An error reply is thrown. */
  command(...words: readonly string[]): Promise<RedisReply>;
  /** Runs commands in order on one connection, for WAIT and the like. Returns the last reply. */
  commands(list: readonly (readonly string[])[]): Promise<RedisReply>;
}

export interface RedisPair extends AsyncDisposable {
  readonly master: RedisServer;
  readonly replica: RedisServer;
}

export interface RedisSentinel extends RedisPair {
  readonly sentinel: RedisServer;
  /** The name of the master in the Sentinel. */
  readonly masterName: string;
}

const DEFAULT_PORT = 6379;
const MASTER_NAME = "mymaster";
const COMMAND_MAX_MS = 5_000;
const LINK_MAX_MS = 20_000;

export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const given = await findGivenServer("redis", options, (url, limitMs) =>
    answersPing(parseAddress(url, DEFAULT_PORT), limitMs),
  );
  if (given !== undefined) return withCommand(given, parseAddress(given.url, DEFAULT_PORT));
  const engine = await needEngine("redis");
  return withFreePorts(1, async ([port = 0]) => {
    const folder = await makeFolder("redis");
    const certificate = options.tls ? await makeCertificate(folder) : undefined;
    const address = { host: "127.0.0.1", port, ca: certificate?.ca };
    const login = options.password === undefined ? "" : `:${encodeURIComponent(options.password)}@`;
    const server = await startServer({
      name: options.replicaOf === undefined ? "redis" : "redis replica",
      url: `${options.tls ? "rediss" : "redis"}://${login}127.0.0.1:${port}`,
      port,
      folder,
      command: [
        findPath(engine, "server"),
        ...buildArguments(options, { port, folder, certificate }),
      ],
      answers: (limitMs) => answersPing(address, limitMs),
    });
    return withCommand(server, address);
  });
}

/**
 * Starts a master and its replica. Resolves when the replica is connected to the master. Both have
 * these options.
 */
export async function startRedisPair(options: RedisOptions = {}): Promise<RedisPair> {
  const servers: RedisServer[] = [];
  try {
    const master = await startRedis({ own: true, ...options });
    servers.push(master);
    const replica = await startRedis({ ...options, replicaOf: master });
    servers.push(replica);
    const isLinked = async (): Promise<boolean> =>
      String(await replica.command("INFO", "replication")).includes("master_link_status:up");
    await until("the replica is connected to its master", isLinked, LINK_MAX_MS);
    return { master, replica, [Symbol.asyncDispose]: () => disposeAll(servers) };
  } catch (error) {
    await disposeAll(servers);
    throw error;
  }
}

/**
 * Starts a pair, and one Sentinel that promotes the replica when the master has not answered for
 * 1.5 s.
 */
export async function startRedisSentinel(options: RedisOptions = {}): Promise<RedisSentinel> {
  const pair = await startRedisPair(options);
  const servers: AsyncDisposable[] = [pair];
  try {
    const sentinel = await startSentinel(pair.master);
    servers.push(sentinel);
    const knowsReplica = async (): Promise<boolean> => {
      const known = await sentinel.command("SENTINEL", "REPLICAS", MASTER_NAME);
      return Array.isArray(known) && known.length > 0;
    };
    await until("the Sentinel has found the replica", knowsReplica, LINK_MAX_MS);
    const dispose = (): Promise<void> => disposeAll(servers);
    return { ...pair, sentinel, masterName: MASTER_NAME, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await disposeAll(servers);
    throw error;
  }
}

async function startSentinel(master: RedisServer): Promise<RedisServer> {
  const engine = await needEngine("redis");
  return withFreePorts(1, async ([port = 0]) => {
    const folder = await makeFolder("redis");
    // The Sentinel writes its state into its configuration file.
    const configuration = join(folder, "sentinel.conf");
    const watch = `sentinel monitor ${MASTER_NAME} ${master.host} ${master.port} 1`;
    const limits = `sentinel down-after-milliseconds ${MASTER_NAME} 1500\nsentinel failover-timeout ${MASTER_NAME} 4000`;
    writeFileSync(
      configuration,
      `port ${port}\nbind 127.0.0.1\ndir ${folder}\n${watch}\n${limits}\n`,
    );
    const address = { host: "127.0.0.1", port };
    const server = await startServer({
      name: "redis sentinel",
      url: `redis://127.0.0.1:${port}`,
      port,
      folder,
      command: [findPath(engine, "server"), configuration, "--sentinel"],
      answers: (limitMs) => answersPing(address, limitMs),
    });
    return withCommand(server, address);
  });
}

function buildArguments(
  options: RedisOptions,
  place: { port: number; folder: string; certificate: Certificate | undefined },
): string[] {
  const { certificate } = place;
  const tls = certificate && [
    ...["--port", "0", "--tls-port", String(place.port), "--tls-auth-clients", "no"],
    ...["--tls-cert-file", certificate.certFile, "--tls-key-file", certificate.keyFile],
    ...["--tls-ca-cert-file", certificate.certFile, "--tls-replication", "yes"],
  ];
  const { appendfsync, password, replicaOf } = options;
  return [
    ...["--bind", "127.0.0.1", "--dir", place.folder, "--save", ""],
    ...(tls ?? ["--port", String(place.port)]),
    ...["--appendonly", options.appendonly ? "yes" : "no"],
    // By default a master delays replication by 5 s, to serve several replicas at once.
    ...["--repl-diskless-sync-delay", "0"],
    ...(appendfsync === undefined ? [] : ["--appendfsync", appendfsync]),
    ...(password === undefined ? [] : ["--requirepass", password, "--masterauth", password]),
    ...(replicaOf === undefined ? [] : ["--replicaof", replicaOf.host, String(replicaOf.port)]),
    ...(options.args ?? []),
  ];
}

function withCommand<S extends RunningServer>(server: S, address: Address): S & RedisServer {
  const password = decodeURIComponent(new URL(server.url).password);
  const login = password === "" ? [] : [["AUTH", password]];
  const commands = async (list: readonly (readonly string[])[]): Promise<RedisReply> => {
    const all = [...login, ...list];
    const lastReply = (answer: Buffer): ParsedReply | undefined => {
      let reply: ParsedReply | undefined = { value: null, end: 0 };
      for (const _ of all) {
        reply = parseReply(answer, reply.end);
        if (reply === undefined || reply.error !== undefined) return reply;
      }
      return reply;
    };
    const request = all.map(encodeCommand).join("");
    const reply = await ask(address, request, lastReply, COMMAND_MAX_MS);
    if (reply === undefined) throw new Error(`${server.name} did not answer ${list.join(", ")}.`);
    if (reply.error !== undefined) throw new Error(reply.error);
    return reply.value;
  };
  const command = (...words: readonly string[]): Promise<RedisReply> => commands([words]);
  return Object.assign(server, { command, commands, ca: address.ca });
}

/**
 * True if the server answers, including one that requires a password. One that is still loading its
 * data does not count.
 */
async function answersPing(address: Address, limitMs: number): Promise<boolean> {
  const isYes = (answer: Buffer): boolean | undefined => {
    const text = answer.toString("latin1");
    return text.includes("\r\n") ? /^(\+PONG|-NOAUTH)/.test(text) : undefined;
  };
  return (await ask(address, "PING\r\n", isYes, limitMs)) ?? false;
}
