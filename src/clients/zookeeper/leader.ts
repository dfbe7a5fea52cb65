// Which server leads, and whether a connection is one to it. What that means for a renewal is told in link.ts.

import type { Duplex } from "node:stream";
import { type Attempt, addressOf, type Host } from "./hosts.ts";
import { getData, readDataAndStat } from "./messages.ts";
import type { Wire } from "./wire.ts";

/** Empty on a server of its own; the list of members in an ensemble. */
const CONFIG_NODE = "/zookeeper/config";
/** The answer to "srvr" is a few hundred bytes; whatever is much longer is something else. */
const ANSWER_MAX_BYTES = 16_384;

export interface Probe extends Attempt {
  /** Only the word of the machine with this address counts. */
  readonly address?: string | undefined;
}

/**
 * Whether this server leads, by its own word ("srvr", the one four-letter word that is allowed by default). False where
 * it does not say so in time: then a renewal takes the longer way.
 */
async function isLeader({ host, port }: Host, probe: Probe): Promise<boolean> {
  let stream: Duplex;
  try {
    stream = await probe.dial(host, port);
  } catch {
    return false;
  }
  return new Promise((resolve) => {
    let answer = "";
    const finish = (): void => {
      timer.cancel();
      probe.signal.removeEventListener("abort", finish);
      // A name may stand for several machines.
      const isSame = probe.address === undefined || probe.address === addressOf(stream);
      stream.destroy();
      resolve(isSame && /^Mode: leader$/m.test(answer));
    };
    const timer = probe.clock.setTimer(finish, probe.limitMs);
    probe.signal.addEventListener("abort", finish, { once: true });
    if (probe.signal.aborted) finish();
    stream.on("error", finish);
    stream.on("end", finish);
    stream.on("close", finish);
    stream.on("data", (chunk: Buffer) => {
      answer += chunk.toString("latin1");
      if (answer.length > ANSWER_MAX_BYTES) finish();
    });
    stream.write("srvr");
  });
}

/**
 * Whether a request over this connection resets the clock that ends its session. Asked after the connection was made, since
 * a server that changes its role ends all its connections: what it says now holds for as long as this one lives. A single
 * address may hide several servers, so its word on a second connection proves nothing there.
 */
export async function resetsExpiry(
  wire: Wire,
  host: Host,
  hosts: readonly Host[],
  probe: Probe,
): Promise<boolean> {
  const config = await wire.send(getData(CONFIG_NODE));
  if (config.error === 0 && readDataAndStat(config.body).data === "") return true;
  return hosts.length > 1 && isLeader(host, probe);
}

/** The index of the first that says so; asked all at once, so that one that is down costs no time. */
export async function findLeader(
  hosts: readonly Host[],
  probe: Probe,
): Promise<number | undefined> {
  if (hosts.length < 2) return undefined;
  const answers = hosts.map(async (host, index) => {
    if (await isLeader(host, probe)) return index;
    throw new Error("not the leader");
  });
  return Promise.any(answers).catch(() => undefined);
}
