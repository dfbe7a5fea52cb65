// Starts three ZooKeeper servers that form one ensemble.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "./ask.ts";
import { findGivenServer, needEngine } from "./given.ts";
import { makeFolder } from "./launch.ts";
import { withFreePorts } from "./ports.ts";
import { disposeAll, startServer } from "./server.ts";
import {
  buildCommand,
  formatSettings,
  serves,
  withWord,
  type ZooKeeperOptions,
  type ZooKeeperServer,
} from "./zookeeper.ts";

export interface ZooKeeperEnsemble extends AsyncDisposable {
  readonly members: readonly ZooKeeperServer[];
  /** Names every member, with commas between them. */
  readonly url: string;
  /** The member that reports itself as leader. Waits until there is one. */
  leader(): Promise<ZooKeeperServer>;
  followers(): Promise<ZooKeeperServer[]>;
}

const SIZE = 3;
const LEADER_MAX_MS = 30_000;

/** Resolves when all members answer. */
export async function startZooKeeperEnsemble(
  options: ZooKeeperOptions = {},
): Promise<ZooKeeperEnsemble> {
  await findGivenServer("zookeeper", { own: true }, async () => false);
  const members = await startMembers(options);
  const leader = (): Promise<ZooKeeperServer> => findLeader(members);
  return {
    members,
    url: `zookeeper://${members.map(({ host, port }) => `${host}:${port}`).join(",")}`,
    leader,
    followers: async () => {
      const leading = await leader();
      return members.filter((member) => member !== leading);
    },
    [Symbol.asyncDispose]: () => disposeAll(members),
  };
}

async function startMembers(options: ZooKeeperOptions): Promise<ZooKeeperServer[]> {
  const engine = await needEngine("zookeeper");
  return withFreePorts(SIZE * 3, async (ports) => {
    const numbers = Array.from({ length: SIZE }, (_, index) => index);
    const peers = numbers.map((index) => [
      `server.${index + 1}`,
      `127.0.0.1:${ports[SIZE + index]}:${ports[2 * SIZE + index]}`,
    ]);
    const settings = { initLimit: "20", syncLimit: "10", ...Object.fromEntries(peers) };
    const start = async (index: number): Promise<ZooKeeperServer> => {
      const port = ports[index] ?? 0;
      const folder = await makeFolder("zookeeper");
      mkdirSync(join(folder, "data"));
      writeFileSync(join(folder, "data", "myid"), String(index + 1));
      const all = { ...options, settings: { ...settings, ...options.settings } };
      writeFileSync(join(folder, "zoo.cfg"), formatSettings(all, port, folder));
      const address = { host: "127.0.0.1", port };
      const server = await startServer({
        name: `zookeeper ${index + 1}`,
        url: `zookeeper://127.0.0.1:${port}`,
        port,
        folder,
        command: buildCommand(engine),
        answers: (limitMs) => serves(address, limitMs),
      });
      return withWord(server, address);
    };
    // Started together: the first member serves requests only when a majority is running.
    const started = await Promise.allSettled(numbers.map(start));
    const servers = started.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    const failed = started.find((each) => each.status === "rejected");
    if (failed === undefined) return servers;
    await disposeAll(servers);
    throw failed.reason;
  });
}

/** A member that is dead or paused does not count. */
async function findLeader(members: readonly ZooKeeperServer[]): Promise<ZooKeeperServer> {
  let leader: ZooKeeperServer | undefined;
  const isKnown = async (): Promise<boolean> => {
    const living = members.filter((member) => !Number.isNaN(member.pid));
    const words = living.map(async (member) => {
      const isServing = await member.answers(500);
      return isServing ? await member.word("srvr").catch(() => "") : "";
    });
    const answers = await Promise.all(words);
    leader = living.find((_, index) => answers[index]?.includes("Mode: leader"));
    return leader !== undefined;
  };
  await until("one of the ZooKeeper servers leads", isKnown, LEADER_MAX_MS);
  return leader as ZooKeeperServer;
}
