// ZooKeeper for tests: one server, standalone.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Address, addressOf, ask } from "./ask.ts";
import { type Engine, pathOf } from "./engine.ts";
import { givenServer, needEngine, type OwnOptions } from "./given.ts";
import { makeFolder } from "./launch.ts";
import { withFreePorts } from "./ports.ts";
import { type RunningServer, startServer } from "./server.ts";

export interface ZooKeeperOptions extends OwnOptions {
  /**
   * The unit of its clock: sessions are ended at multiples of it, and last at least two of them and at most
   * twenty. @default 200
   */
  readonly tickTimeMs?: number | undefined;
  /** The longest session, where twenty ticks are too few. @default 60,000 */
  readonly maxSessionTimeoutMs?: number | undefined;
  /** More lines for its settings. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

export interface ZooKeeperServer extends RunningServer {
  /** The answer to a four-letter word: "srvr", "cons", "wchs". */
  word(word: string): Promise<string>;
}

const DEFAULT_PORT = 2181;
const WORD_MAX_MS = 5_000;

export async function startZooKeeper(options: ZooKeeperOptions = {}): Promise<ZooKeeperServer> {
  const given = await givenServer("zookeeper", options, (url, limitMs) =>
    serves(addressOf(url, DEFAULT_PORT), limitMs),
  );
  if (given !== undefined) return withWord(given, addressOf(given.url, DEFAULT_PORT));
  const engine = await needEngine("zookeeper");
  return withFreePorts(1, async ([port = 0]) => {
    const folder = await makeFolder("zookeeper");
    const address = { host: "127.0.0.1", port };
    writeFileSync(join(folder, "zoo.cfg"), settingsOf(options, port, folder));
    const server = await startServer({
      name: "zookeeper",
      url: `zookeeper://127.0.0.1:${port}`,
      port,
      folder,
      command: commandOf(engine),
      answers: (limitMs) => serves(address, limitMs),
    });
    return withWord(server, address);
  });
}

export function settingsOf(options: ZooKeeperOptions, port: number, folder: string): string {
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

export function commandOf(engine: Engine): string[] {
  return [
    pathOf(engine, "java"),
    // Small and quick to start: little memory, the plain collector, the first compiler only, no file in /tmp.
    ...["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"],
    ...["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.jmx.log4j.disable=true"],
    // Its log grows in such steps (in KB); the usual 64 MB each are a lot of disk for a test.
    "-Dzookeeper.preAllocSize=1024",
    ...["-cp", ["jute", "jar", "log"].map((role) => pathOf(engine, role)).join(":")],
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

/** "ruok" is answered before requests are served; "srvr" tells a mode only afterwards. */
export async function serves(address: Address, limitMs: number): Promise<boolean> {
  return (await askWord(address, "srvr", limitMs))?.includes("Mode:") ?? false;
}

/** The server closes the connection behind its answer. */
function askWord(address: Address, word: string, limitMs: number): Promise<string | undefined> {
  const whole = (answer: Buffer, ended: boolean): string | undefined =>
    ended ? answer.toString("utf8") : undefined;
  return ask(address, word, whole, limitMs);
}
