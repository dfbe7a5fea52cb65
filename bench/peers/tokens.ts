// Whether the value that a library returns with a grant increases from one grant to the next, also
// when the server is killed and restarted in between. Ten grants in a row, each to a new holder.

import { startEtcd } from "../../test/servers/etcd.ts";
import { startPostgres } from "../../test/servers/postgres.ts";
import { startRedis } from "../../test/servers/redis.ts";
import type { RunningServer } from "../../test/servers/server.ts";
import { startZooKeeper } from "../../test/servers/zookeeper.ts";
import { openLocker } from "../pairs.ts";
import { failedRow, type Row, type Section } from "../results.ts";
import { labels, type ServerEngine } from "../servers.ts";
import type { Context } from "../topic.ts";
import { type Contender, contendersOn } from "./peers.ts";

const GRANTS = 10;

/** Servers that keep their data when they are killed. */
const starts: Readonly<Record<ServerEngine, () => Promise<RunningServer>>> = {
  redis: () => startRedis({ own: true, appendonly: true, appendfsync: "always" }),
  postgres: () => startPostgres({ own: true }),
  etcd: () => startEtcd({ own: true }),
  zookeeper: () => startZooKeeper({ own: true }),
};

export async function* tokens(context: Context): AsyncGenerator<Section> {
  const { quick, withPeers, engines, servers } = context;
  const restarts = quick ? 1 : GRANTS - 1;
  const rows = await Promise.all(
    engines.map(async (engine) => {
      await using server = engine === "sqlite" ? undefined : await starts[engine]();
      const url = server?.url ?? servers.folder;
      const found = contendersOn(engine, url, withPeers).map((contender) => ({
        contender,
        values: [] as unknown[],
        failure: undefined as unknown,
      }));
      for (let grant = 0; grant < GRANTS; grant += 1) {
        if (isRestart(grant, restarts)) {
          await server?.kill();
          await server?.start();
        }
        for (const each of found) {
          if (each.failure !== undefined) continue;
          await readToken(each.contender).then(
            (value) => each.values.push(value),
            (error: unknown) => {
              each.failure = error;
            },
          );
        }
      }
      return found.map(({ contender, values, failure }): Row => {
        const { kind, peer } = contender;
        const isTenure = kind === "tenure";
        const label = `${isTenure ? `tenure on ${labels[engine]}` : contender.name}: token increases`;
        if (failure !== undefined) return failedRow(label, failure, isTenure);
        const measured = judge(values, isTenure ? "lease.token" : peer?.token, peer?.tokenNote);
        if (!isTenure) return { label, measured };
        return { label, measured, target: "yes", ok: measured.startsWith("yes") };
      });
    }),
  );
  yield {
    title: "Safety: tokens across server restarts",
    method: `${GRANTS} grants in a row, each to a new holder that releases it; ${restarts} times in between the server is killed (SIGKILL) and started on its data. Numbers are compared as numbers, anything else as text.`,
    rows: rows.flat(),
  };
}

/** Spreads the restarts over the grants; never before the first. */
function isRestart(grant: number, restarts: number): boolean {
  const upTo = (count: number): number => Math.floor((count * restarts) / (GRANTS - 1));
  return grant > 0 && upTo(grant) > upTo(grant - 1);
}

async function readToken(contender: Contender): Promise<unknown> {
  const locker = await openLocker(contender);
  try {
    const unlock = await locker.lock("restarted");
    const token = await unlock.token?.();
    await unlock();
    return token;
  } finally {
    await locker.close();
  }
}

/** "yes: lease.token, 9 of 9 times higher" */
export function judge(values: readonly unknown[], field = "", note?: string): string {
  if (values.every((value) => value === undefined || value === null)) return "no: it returns none";
  const times = values.length - 1;
  const higher = values.filter((value, index) => index > 0 && isHigher(value, values[index - 1]));
  const answer = higher.length === times ? "yes" : "no";
  const found = `${answer}: ${field}, ${higher.length} of ${times} times higher`;
  return note === undefined ? found : `${found}; ${note}`;
}

function isHigher(value: unknown, than: unknown): boolean {
  const [one, other] = [String(value), String(than)];
  const areNumbers = [one, other].every((text) => /^\d+$/.test(text));
  return areNumbers ? BigInt(one) > BigInt(other) : one > other;
}
