// Redis for tests: alone, as a master with one replica, or those two with a Sentinel that watches them. Without options nothing is saved, so that a kill loses
// all of it; `appendonly` keeps what was acknowledged.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Address, addressOf, ask, until } from "./ask.ts";
import { type Certificate, makeCertificate } from "./certificate.ts";
import { pathOf } from "./engine.ts";
import { givenServer, needEngine, type OwnOptions } from "./given.ts";
import { makeFolder } from "./launch.ts";
import { withFreePorts } from "./ports.ts";
import { encodeCommand, type ParsedReply, parseReply, type RedisReply } from "./redis-wire.ts";
import { disposeAll, type RunningServer, startServer } from "./server.ts";

export interface RedisOptions extends OwnOptions {
  /** Keep a log of writes, and replay it at start. @default false */
  readonly appendonly?: boolean | undefined;
  /** When the log reaches the disk. @default Redis' own: everysec */
  readonly appendfsync?: "always" | "everysec" | "no" | undefined;
  /** Follow this server from the start. */
  readonly replicaOf?: RunningServer | undefined;
  readonly password?: string | undefined;
  /** Accept only TLS, with a certificate made for the occasion; the URL is then rediss://. */
  readonly tls?: boolean | undefined;
  /** More arguments for redis-server: ["--maxmemory", "1mb"]. */
  readonly args?: readonly string[] | undefined;
}

export interface RedisServer extends RunningServer {
  /** With `tls`: what a client has to trust. */
  readonly ca: string | undefined;
  /** Runs one command on a connection of its own; an error reply is thrown. */
  command(...words: readonly string[]): Promise<RedisReply>;
  /** Runs commands one after the other on the same connection, for WAIT and the like; gives back the last reply. */
  commands(list: readonly (readonly string[])[]): Promise<RedisReply>;
}

export interface RedisPair extends AsyncDisposable {
  readonly master: RedisServer;
  readonly replica: RedisServer;
}

export interface RedisSentinel extends RedisPair {
  readonly sentinel: RedisServer;
  /** The name under which the Sentinel knows the master. */
  readonly masterName: string;
}

const DEFAULT_PORT = 6379;
const MASTER_NAME = "mymaster";
const COMMAND_MAX_MS = 5_000;
const LINK_MAX_MS = 20_000;

export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const given = await givenServer("redis", options, (url, limitMs) =>
    answersPing(addressOf(url, DEFAULT_PORT), limitMs),
  );
  if (given !== undefined) return withCommand(given, addressOf(given.url, DEFAULT_PORT));
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
      command: [pathOf(engine, "server"), ...argumentsOf(options, { port, folder, certificate })],
      answers: (limitMs) => answersPing(address, limitMs),
    });
    return withCommand(server, address);
  });
}

/** A master and its replica, in step with each other. `options` are those of both. */
export async function startRedisPair(options: RedisOptions = {}): Promise<RedisPair> {
  const servers: RedisServer[] = [];
  try {
    const master = await startRedis({ own: true, ...options });
    servers.push(master);
    const replica = await startRedis({ ...options, replicaOf: master });
    servers.push(replica);
    const isInStep = async (): Promise<boolean> =>
      String(await replica.command("INFO", "replication")).includes("master_link_status:up");
    await until("the replica is in step with its master", isInStep, LINK_MAX_MS);
    return { master, replica, [Symbol.asyncDispose]: () => disposeAll(servers) };
  } catch (error) {
    await disposeAll(servers);
    throw error;
  }
}

/** A pair, and one Sentinel that promotes the replica when the master has been silent for a second and a half. */
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
    // It writes what it learns into its own configuration.
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
      command: [pathOf(engine, "server"), configuration, "--sentinel"],
      answers: (limitMs) => answersPing(address, limitMs),
    });
    return withCommand(server, address);
  });
}

function argumentsOf(
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
    // A master lets a replica wait 5 s for others to join with it, unless told otherwise.
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
    const question = all.map(encodeCommand).join("");
    const reply = await ask(address, question, lastReply, COMMAND_MAX_MS);
    if (reply === undefined) throw new Error(`${server.name} did not answer ${list.join(", ")}.`);
    if (reply.error !== undefined) throw new Error(reply.error);
    return reply.value;
  };
  const command = (...words: readonly string[]): Promise<RedisReply> => commands([words]);
  return Object.assign(server, { command, commands, ca: address.ca });
}

/** Also a server that asks for a password answers; one that still loads its data does not. */
async function answersPing(address: Address, limitMs: number): Promise<boolean> {
  const isYes = (answer: Buffer): boolean | undefined => {
    const text = answer.toString("latin1");
    return text.includes("\r\n") ? /^(\+PONG|-NOAUTH)/.test(text) : undefined;
  };
  return (await ask(address, "PING\r\n", isYes, limitMs)) ?? false;
}
