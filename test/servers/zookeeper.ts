// Starts one standalone ZooKeeper server for tests.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Address, ask, parseAddress } from "./ask.ts";
import { type Engine, findPath } from "./engine.ts";
import { findGivenServer, needEngine, type OwnOptions } from "./given.ts";
import { makeFolder } from "./launch.ts";
import { withFreePorts } from "./ports.ts";
import { type RunningServer, startServer } from "./server.ts";

export interface ZooKeeperOptions extends OwnOptions {
  /**
   * The unit of time of the server. Sessions expire at multiples of it and last at least two ticks.
   * @default 200
   */
  readonly tickTimeMs?: number | undefined;
  /**
   * The longest session timeout. The default of the server, twenty ticks, is too short for tests.
   * @default 60,000
   */
  readonly maxSessionTimeoutMs?: number | undefined;
  /** More lines for its configuration file. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

export interface ZooKeeperServer extends RunningServer {
  /** The answer to a four-letter command, such as "srvr", "cons" or "wchs". */
  word(word: string): Promise<string>;
}

const DEFAULT_PORT = 2181;
const WORD_MAX_MS = 5_000;

export async function startZooKeeper(options: ZooKeeperOptions = {}): Promise<ZooKeeperServer> {
  const given = await findGivenServer("zookeeper", options, (url, limitMs) =>
    serves(parseAddress(url, DEFAULT_PORT), limitMs),
  );
  if (given !== undefined) return withWord(given, parseAddress(given.url, DEFAULT_PORT));
  const engine = await needEngine("zookeeper");
  return withFreePorts(1, async ([port = 0]) => {
    const folder = await makeFolder("zookeeper");
    const address = { host: "127.0.0.1", port };
    writeFileSync(join(folder, "zoo.cfg"), formatSettings(options, port, folder));
    const server = await startServer({
      name: "zookeeper",
      url: `zookeeper://127.0.0.1:${port}`,
      port,
      folder,
      command: buildCommand(engine),
      answers: (limitMs) => serves(address, limitMs),
    });
    return withWord(server, address);
  });
}

export function formatSettings(options: ZooKeeperOptions, port: number, folder: string): string {
  const settings = {
    tickTime: String(options.tickTimeMs ?? 200),
    dataDir: join(folder, "data"),
    clientPort: String(port),
    clientPortAddress: "127.0.0.1",
    maxClientCnxns: "0",
    maxSessionTimeout: String(options.maxSessionTimeoutMs ?? 60_000),
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
    ...options.settings,
  };
  const lines = Object.entries(settings).map(([key, value]) => `${key}=${value}\n`);
  return lines.join("");
}

export function buildCommand(engine: Engine): string[] {
  return [
    findPath(engine, "java"),
    // For a small and quick start: little memory, the serial collector, only the first compiler,
    // and no file in /tmp.
    ...["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"],
    ...["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.jmx.log4j.disable=true"],
    // The log grows in steps of this many KB. The default of 64 MB is a lot of disk space for a
    // test.
    "-Dzookeeper.preAllocSize=1024",
    ...["-cp", ["jute", "jar", "log"].map((role) => findPath(engine, role)).join(":")],
    ...["org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"],
  ];
}

export function withWord<S extends RunningServer>(
  server: S,
  address: Address,
): S & ZooKeeperServer {
  const word = async (text: string): Promise<string> => {
    const answer = await askWord(address, text, WORD_MAX_MS);
    if (answer === undefined) throw new Error(`${server.name} did not answer ${text}.`);
    return answer;
  };
  return Object.assign(server, { word });
}

/** The server answers "ruok" before it serves requests; "srvr" reports a mode only afterwards. */
export async function serves(address: Address, limitMs: number): Promise<boolean> {
  return (await askWord(address, "srvr", limitMs))?.includes("Mode:") ?? false;
}

/** The server closes the connection after its answer. */
function askWord(address: Address, word: string, limitMs: number): Promise<string | undefined> {
  const whole = (answer: Buffer, ended: boolean): string | undefined =>
    ended ? answer.toString("utf8") : undefined;
  return ask(address, word, whole, limitMs);
}
