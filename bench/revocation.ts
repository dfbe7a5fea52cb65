// Revocation: from the call of revoke() in one process to the abort of lease.signal in the holder,
// against the bare notification of the same engine.

import { setTimeout as sleep } from "node:timers/promises";
import { compare, milliseconds } from "./comparison.ts";
import { bareNotification } from "./notifications.ts";
import { contendersOn } from "./peers/peers.ts";
import type { Section } from "./results.ts";
import { labels } from "./servers.ts";
import type { Context } from "./topic.ts";
import { newResource, Worker } from "./workers.ts";

/** A revocation is a conditional write and a notification, so it may take twice as long. */
const NOTIFICATION_TARGET = 0.5;
/** A store that notifies its holders only by renewals takes seconds for each. */
const ROUND_MAX_MS = 20_000;
const pauseMs = (): number => 20 + Math.random() * 50;

export async function* revocation({ quick, engines, servers }: Context): AsyncGenerator<Section> {
  const count = quick ? 10 : 100;
  for (const engine of engines) {
    const url = await servers.url(engine);
    const [tenure] = contendersOn(engine, url, false);
    yield await compare({
      title: `${labels[engine]}: from revoke() to lease.signal`,
      method: `3 x ${count} revocations by another process, or as many as ${ROUND_MAX_MS / 1_000} s allow.`,
      rounds: 3,
      figures: { times: milliseconds },
      contestants: [
        {
          name: "tenure",
          kind: "tenure",
          measure: async () => ({ times: await measure(tenure.url, count) }),
        },
        ...bareNotification({ engine, url }, { count, pauseMs, target: NOTIFICATION_TARGET }),
      ],
    });
  }
}

async function measure(url: string, count: number): Promise<number[]> {
  const open = (): Worker => new Worker("revoker.mjs", { url });
  const [holder, revoker] = [open(), open()];
  try {
    await Promise.all([holder.next(), revoker.next()]);
    const [times, until]: [number[], number] = [[], performance.now() + ROUND_MAX_MS];
    while (times.length < count && performance.now() < until) {
      const resource = newResource();
      await holder.ask({ hold: resource });
      const lost = holder.ask<number>({ lost: true });
      await sleep(pauseMs());
      const revokedAt = await revoker.ask<number>({ revoke: resource });
      times.push((await lost) - revokedAt);
    }
    return times;
  } finally {
    await Promise.all([holder.end(), revoker.end()]);
  }
}
