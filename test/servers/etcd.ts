// Starts etcd for tests: one member, or a cluster of several. Authentication and TLS are optional.
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Address, parseAddress, until } from "./ask.ts";
import { type Certificate, makeCertificate } from "./certificate.ts";
import { type Engine, findPath } from "./engine.ts";
import { callEtcd, isEtcdHealthy, type Login } from "./etcd-gateway.ts";
import { findGivenServer, needEngine, type OwnOptions } from "./given.ts";
import { makeFolder } from "./launch.ts";
import { withFreePorts } from "./ports.ts";
import { disposeAll, type RunningServer, startServer } from "./server.ts";

export interface EtcdOptions extends OwnOptions {
  /**
   * Send heartbeats every 20 ms and elect after 200 ms, instead of 100 and 1,000. A new leader is
   * elected within half a second, and the shortest lease is 1 s instead of 2.
   * @default false
   */
  readonly fastElections?: boolean | undefined;
  /** Enable authentication, with the user root and this password. */
  readonly rootPassword?: string | undefined;
  /** Accept only TLS from clients, with a new certificate. */
  readonly tls?: boolean | undefined;
  /**
   * Issue logins as signed JWTs that are valid for this long ("1s"), instead of the simple tokens
   * of etcd.
   */
  readonly jwtLogins?: string | undefined;
  /** More arguments for etcd: ["--quota-backend-bytes", "1048576"]. */
  readonly args?: readonly string[] | undefined;
}

export interface EtcdServer extends RunningServer {
  /** With `tls`: the certificate that a client has to trust. */
  readonly ca: string | undefined;
  /**
   * Sends one request to the JSON gateway as the user of the URL:
   * `call("/v3/kv/range", { key: inBase64 })`.
   */
  call(path: string, body: object): Promise<Record<string, unknown>>;
}

export interface EtcdClusterOptions extends EtcdOptions {
  /**
   * Number of members.
   * @default 3
   */
  readonly size?: number | undefined;
}

export interface EtcdCluster extends AsyncDisposable {
  readonly members: readonly EtcdServer[];
  /** Names every member, with commas between them. */
  readonly url: string;
  /** The member that a majority follows. Waits until there is one. */
  leader(): Promise<EtcdServer>;
}

interface Member {
  readonly name: string;
  readonly port: number;
  readonly peerPort: number;
}

const DEFAULT_PORT = 2379;
const LEADER_MAX_MS = 30_000;

export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdServer> {
  const given = await findGivenServer("etcd", options, (url, limitMs) =>
    isEtcdHealthy(parseAddress(url, DEFAULT_PORT), limitMs),
  );
  if (given !== undefined) return withCall(given, parseAddress(given.url, DEFAULT_PORT));
  const [server] = (await startMembers(1, options)) as [EtcdServer];
  return server;
}

/** Starts the members of one cluster. Resolves when all of them answer. */
export async function startEtcdCluster(options: EtcdClusterOptions = {}): Promise<EtcdCluster> {
  await findGivenServer("etcd", { own: true }, async () => false);
  const members = await startMembers(options.size ?? 3, options);
  return {
    members,
    url: `etcd://${members.map((member) => member.url.slice("etcd://".length)).join(",")}`,
    leader: () => findLeader(members),
    [Symbol.asyncDispose]: () => disposeAll(members),
  };
}

async function startMembers(size: number, options: EtcdOptions): Promise<EtcdServer[]> {
  const engine = await needEngine("etcd");
  const args = [...(await jwtArguments(options)), ...(options.args ?? [])];
  return withFreePorts(size * 2, async (ports) => {
    const members = Array.from({ length: size }, (_, index) => ({
      name: `s${index + 1}`,
      port: ports[index] ?? 0,
      peerPort: ports[size + index] ?? 0,
    }));
    // Started together: the first member answers only when a majority is running.
    const started = await Promise.allSettled(
      members.map((member) =>
        startMember(engine, { member, members, options: { ...options, args } }),
      ),
    );
    const servers = started.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    try {
      for (const each of started) if (each.status === "rejected") throw each.reason;
      if (options.rootPassword !== undefined) await enableAuth(servers[0], options.rootPassword);
      return servers;
    } catch (error) {
      await disposeAll(servers);
      throw error;
    }
  });
}

async function startMember(
  engine: Engine,
  part: { member: Member; members: readonly Member[]; options: EtcdOptions },
): Promise<EtcdServer> {
  const { member, members, options } = part;
  const folder = await makeFolder("etcd");
  const certificate = options.tls ? await makeCertificate(folder) : undefined;
  const address = { host: "127.0.0.1", port: member.port, ca: certificate?.ca };
  const own = `${certificate === undefined ? "http" : "https"}://127.0.0.1:${member.port}`;
  const peerUrl = (each: Member): string => `http://127.0.0.1:${each.peerPort}`;
  const cluster = members.map((each) => `${each.name}=${peerUrl(each)}`);
  const password = options.rootPassword;
  const login = password === undefined ? "" : `root:${encodeURIComponent(password)}@`;
  const server = await startServer({
    name: members.length === 1 ? "etcd" : `etcd ${member.name}`,
    url: `etcd://${login}127.0.0.1:${member.port}`,
    port: member.port,
    folder,
    command: [
      ...[findPath(engine, "server"), "--name", member.name, "--data-dir", "data"],
      ...["--listen-client-urls", own, "--advertise-client-urls", own],
      ...["--listen-peer-urls", peerUrl(member)],
      ...["--initial-advertise-peer-urls", peerUrl(member)],
      ...["--initial-cluster", cluster.join(","), "--initial-cluster-state", "new"],
      ...["--logger", "zap", "--log-level", "warn", ...optionalArguments(options, certificate)],
    ],
    answers: (limitMs) => isEtcdHealthy(address, limitMs),
  });
  return withCall(server, address);
}

function optionalArguments(options: EtcdOptions, certificate: Certificate | undefined): string[] {
  return [
    ...(options.fastElections ? ["--heartbeat-interval", "20", "--election-timeout", "200"] : []),
    ...(certificate
      ? ["--cert-file", certificate.certFile, "--key-file", certificate.keyFile]
      : []),
    ...(options.args ?? []),
  ];
}

/** The members share one key pair, so each accepts logins that another one issued. */
async function jwtArguments({ jwtLogins }: EtcdOptions): Promise<string[]> {
  if (jwtLogins === undefined) return [];
  const folder = await makeFolder("etcd-jwt");
  const { publicKey, privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2_048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
  });
  const files = { "pub-key": join(folder, "public.pem"), "priv-key": join(folder, "private.pem") };
  writeFileSync(files["pub-key"], publicKey);
  writeFileSync(files["priv-key"], privateKey, { mode: 0o600 });
  const settings = Object.entries({ ...files, "sign-method": "RS256", ttl: jwtLogins });
  return ["--auth-token", `jwt,${settings.map((pair) => pair.join("=")).join(",")}`];
}

async function enableAuth(server: EtcdServer | undefined, password: string): Promise<void> {
  if (server === undefined) return;
  const address = { host: server.host, port: server.port, ca: server.ca };
  await callEtcd(address, "/v3/auth/user/add", { name: "root", password });
  await callEtcd(address, "/v3/auth/user/grant", { user: "root", role: "root" });
  await callEtcd(address, "/v3/auth/enable", {});
}

function withCall<S extends RunningServer>(server: S, address: Address): S & EtcdServer {
  const { username, password } = new URL(server.url);
  const login: Login | undefined =
    username === ""
      ? undefined
      : { name: decodeURIComponent(username), password: decodeURIComponent(password) };
  const call = (path: string, body: object): Promise<Record<string, unknown>> =>
    callEtcd(address, path, body, login);
  return Object.assign(server, { call, ca: address.ca });
}

/** Asks every member for its leader. A member that is dead, paused or cut off does not count. */
async function findLeader(members: readonly EtcdServer[]): Promise<EtcdServer> {
  let leader: EtcdServer | undefined;
  const isKnown = async (): Promise<boolean> => {
    const answers = await Promise.all(members.map(readStatus));
    const follows = (id: string): number => answers.filter((each) => each?.leader === id).length;
    leader = members.find((_, index) => {
      const own = answers[index];
      return own !== undefined && own.leader === own.id && follows(own.id) > members.length / 2;
    });
    return leader !== undefined;
  };
  await until("a majority of the etcd members has a leader", isKnown, LEADER_MAX_MS);
  return leader as EtcdServer;
}

async function readStatus(member: EtcdServer): Promise<{ id: string; leader: string } | undefined> {
  if (Number.isNaN(member.pid) || !(await member.answers(500))) return undefined;
  const status = await member.call("/v3/maintenance/status", {}).catch(() => undefined);
  const header = status?.header as { member_id?: string } | undefined;
  return status && { id: String(header?.member_id), leader: String(status.leader) };
}
