// Starts PostgreSQL for tests: one server, or a primary with a standby that can be promoted. The
// server does not run as root, so root runs it as the user postgres, which Debian's package
// creates.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Address, ask, parseAddress } from "./ask.ts";
import { makeCertificate } from "./certificate.ts";
import { type Engine, findPath } from "./engine.ts";
import { findGivenServer, needEngine, type OwnOptions } from "./given.ts";
import { makeFolder, runTool, type User } from "./launch.ts";
import { withFreePorts } from "./ports.ts";
import { disposeAll, type RunningServer, startServer } from "./server.ts";

export interface PostgresOptions extends OwnOptions {
  /**
   * Require this password (scram-sha-256). Without it, every connection from this host is accepted.
   */
  readonly password?: string | undefined;
  /** Offer TLS, with a new certificate. */
  readonly tls?: boolean | undefined;
  /** Settings of the server, such as `{ max_connections: "300" }`. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** Runs once in the folder of the new, empty cluster, before the server starts. */
  readonly beforeStart?: ((cluster: NewCluster) => Promise<void>) | undefined;
}

interface NewCluster {
  /** The data is in its subfolder "data". */
  readonly folder: string;
  readonly user: User | undefined;
}

export interface PostgresServer extends RunningServer {
  /** With `tls`: the certificate that a client has to trust. */
  readonly ca: string | undefined;
  /** Runs SQL through psql and returns the rows, one per line, with "|" between values. */
  sql(text: string): Promise<string>;
}

export interface PostgresPair extends AsyncDisposable {
  readonly primary: PostgresServer;
  readonly standby: PostgresServer;
  /**
   * Makes the standby a primary, on the next timeline. The old primary keeps running and does not
   * notice.
   */
  promote(): Promise<void>;
}

interface Cluster extends NewCluster {
  readonly engine: Engine;
  readonly options: PostgresOptions;
}

const DEFAULT_PORT = 5432;

export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const given = await findGivenServer("postgres", options, (url, limitMs) =>
    answersStartup(parseAddress(url, DEFAULT_PORT), limitMs),
  );
  if (given?.givenBy !== undefined) return withSql(given, undefined);
  if (given !== undefined) return withOwnDatabase(given);
  const cluster = await newCluster(options);
  const passwordFile = join(cluster.folder, "password");
  writeFileSync(passwordFile, options.password ?? "unused", { mode: 0o644 });
  await runTool(
    [
      ...[findPath(cluster.engine, "initdb"), "-D", "data", "-U", "postgres", "--no-sync"],
      ...["-A", options.password === undefined ? "trust" : "scram-sha-256"],
      ...["--pwfile", passwordFile, "--no-locale", "-E", "UTF8"],
    ],
    cluster,
  );
  await options.beforeStart?.(cluster);
  return serve(cluster, "postgres");
}

/**
 * The server of the test run, with a new database for this caller. Other files cannot see or lock
 * anything in it.
 */
async function withOwnDatabase(shared: RunningServer): Promise<PostgresServer> {
  const database = `file_${randomBytes(6).toString("hex")}`;
  // template1 cannot be copied while another test is connected to it.
  await withSql(shared, undefined).sql(`CREATE DATABASE ${database} TEMPLATE template0`);
  return withSql({ ...shared, url: shared.url.replace(/[^/]*$/, database) }, undefined);
}

/** Starts a primary, and a standby that streams from it. Both have these options. */
export async function startPostgresPair(options: PostgresOptions = {}): Promise<PostgresPair> {
  const servers: PostgresServer[] = [];
  try {
    const primary = await startPostgres({ own: true, ...options });
    servers.push(primary);
    const cluster = await newCluster(options);
    const { host, port } = primary;
    await runTool(
      [
        ...[
          findPath(cluster.engine, "basebackup"),
          "-h",
          host,
          "-p",
          String(port),
          "-U",
          "postgres",
        ],
        ...["-D", "data", "-X", "stream", "-c", "fast", "-R", "--no-sync"],
      ],
      { ...cluster, env: { PGPASSWORD: options.password ?? "" } },
    );
    const standby = await serve(cluster, "postgres standby");
    servers.push(standby);
    const promotion = [findPath(cluster.engine, "ctl"), "promote", "-D", "data", "-w", "-t", "30"];
    return {
      primary,
      standby,
      promote: async () => void (await runTool(promotion, cluster)),
      [Symbol.asyncDispose]: () => disposeAll(servers),
    };
  } catch (error) {
    await disposeAll(servers);
    throw error;
  }
}

async function newCluster(options: PostgresOptions): Promise<Cluster> {
  const engine = await needEngine("postgres");
  const user = unprivilegedUser();
  return { engine, user, options, folder: await makeFolder("postgres", user) };
}

/** The user for a program that does not run as root. Undefined if this process is not root. */
export function unprivilegedUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const readId = (option: string, name: string): number =>
    Number(execFileSync("id", [option, name], { stdio: ["ignore", "pipe", "ignore"] }));
  for (const name of ["postgres", "nobody"]) {
    try {
      return { uid: readId("-u", name), gid: readId("-g", name) };
    } catch {
      // No such user here.
    }
  }
  throw new Error("PostgreSQL does not run as root, and there is no user postgres or nobody.");
}

async function serve(cluster: Cluster, name: string): Promise<PostgresServer> {
  const { engine, folder, user, options } = cluster;
  const certificate = options.tls ? await makeCertificate(folder, user) : undefined;
  const login =
    options.password === undefined
      ? "postgres"
      : `postgres:${encodeURIComponent(options.password)}`;
  const settings = {
    listen_addresses: "127.0.0.1",
    // The path of a socket has to be short, and no test connects through one.
    unix_socket_directories: "",
    // Without it, the start after a kill flushes each file of the folder, which takes seconds.
    // Since release 14.
    ...(Number.parseInt(engine.version, 10) >= 14 && { recovery_init_sync_method: "syncfs" }),
    ...(certificate && {
      ssl: "on",
      ssl_cert_file: certificate.certFile,
      ssl_key_file: certificate.keyFile,
    }),
    ...options.settings,
  };
  return withFreePorts(1, async ([port = 0]) => {
    const server = await startServer({
      name,
      url: `postgres://${login}@127.0.0.1:${port}/postgres`,
      port,
      folder,
      user,
      command: [
        ...[findPath(engine, "server"), "-D", "data", "-p", String(port)],
        ...Object.entries(settings).flatMap(([key, value]) => ["-c", `${key}=${value}`]),
      ],
      // SIGTERM would wait until all clients have disconnected.
      stopSignal: "SIGINT",
      answers: (limitMs) => answersStartup({ host: "127.0.0.1", port }, limitMs),
    });
    return withSql(server, certificate?.ca);
  });
}

function withSql<S extends RunningServer>(server: S, ca: string | undefined): S & PostgresServer {
  let folder = server.folder;
  const sql = async (text: string): Promise<string> => {
    const psql = findPath(await needEngine("postgres"), "psql");
    if (folder === "") folder = await makeFolder("psql");
    const options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text, server.url];
    return (await runTool([psql, ...options], { folder })).trimEnd();
  };
  return Object.assign(server, { sql, ca });
}

/**
 * True if the server accepts a client or asks for a password. While it starts, stops or recovers,
 * it answers with an error.
 */
export async function answersStartup(address: Address, limitMs: number): Promise<boolean> {
  const words = Buffer.from("user\0postgres\0database\0postgres\0\0");
  const head = Buffer.alloc(8);
  head.writeInt32BE(head.length + words.length, 0);
  head.writeInt32BE(3 << 16, 4); // protocol 3.0
  const isYes = (answer: Buffer): boolean => answer[0] === "R".charCodeAt(0);
  return (await ask(address, Buffer.concat([head, words]), isYes, limitMs)) ?? false;
}
