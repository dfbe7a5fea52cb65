// The servers of an ensemble: how to connect to one of them, and which one leads.

import { connect as connectPlain } from "node:net";
import type { Duplex } from "node:stream";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import type { Clock } from "../../async/clock.ts";
import { getData, readDataAndStat } from "./messages.ts";
import type { Wire } from "./wire.ts";

export interface Host {
  readonly host: string;
  readonly port: number;
}

/** Opens a connection to one server of the ensemble. */
export type ZooKeeperDial = (host: string, port: number) => Duplex | Promise<Duplex>;

export function dialer(tls: ConnectionOptions | undefined): ZooKeeperDial {
  return (host, port) =>
    tls === undefined
      ? connectPlain({ host, port, noDelay: true })
      : connectTls({ servername: isAddress(host) ? "" : host, ...tls, host, port });
}

function isAddress(host: string): boolean {
  return /^[\d.]+$|:/.test(host);
}

export function placeOf({ host, port }: Host): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** How long a connection may take to be usable, and what ends the attempt before that. */
export interface Attempt {
  readonly dial: ZooKeeperDial;
  readonly clock: Clock;
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

/** Connects to a host and runs `begin`. If that fails or takes too long, nothing stays open. */
export function dialWithin<T>(
  host: Host,
  { dial, clock, limitMs, signal }: Attempt,
  begin: (stream: Duplex) => Promise<T>,
): Promise<T> {
  let stream: Duplex | undefined;
  let hasFailed = false;
  const opening = (async () => {
    stream = await dial(host.host, host.port);
    if (hasFailed) stream.destroy();
    return begin(stream);
  })();
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", stop);
    };
    const fail = (cause: Error): void => {
      settle();
      hasFailed = true;
      stream?.destroy();
      reject(cause);
    };
    const stop = (): void => fail(signal.reason as Error);
    const giveUp = (): void =>
      fail(new Error(`${placeOf(host)} did not answer within ${Math.round(limitMs)} ms`));
    const timer = clock.setTimer(giveUp, limitMs, { keepAlive: true });
    signal.addEventListener("abort", stop, { once: true });
    opening.then((opened) => {
      settle();
      resolve(opened);
    }, fail);
  });
}

/** The address of the peer, if the stream is a socket. */
export function addressOf(stream: Duplex): string | undefined {
  return (stream as { remoteAddress?: string | undefined }).remoteAddress;
}

/** Empty on a standalone server; the list of members in an ensemble. */
const CONFIG_NODE = "/zookeeper/config";
/** The answer to "srvr" has a few hundred bytes. A much longer one is not from ZooKeeper. */
const ANSWER_MAX_BYTES = 16_384;

/**
 * Whether the server states that it leads. "srvr" is the only four-letter command that is allowed
 * by default. A server that does not answer in time does not count as leader.
 */
async function isLeader(host: Host, attempt: Attempt, address?: string): Promise<boolean> {
  const ask = (stream: Duplex): Promise<boolean> =>
    new Promise((resolve) => {
      let answer = "";
      const finish = (): void => {
        // A host name may stand for several machines.
        const isSame = address === undefined || address === addressOf(stream);
        stream.destroy();
        resolve(isSame && /^Mode: leader$/m.test(answer));
      };
      for (const event of ["error", "end", "close"]) stream.on(event, finish);
      stream.on("data", (chunk: Buffer) => {
        answer += chunk.toString("latin1");
        if (answer.length > ANSWER_MAX_BYTES) finish();
      });
      stream.write("srvr");
    });
  return dialWithin(host, attempt, ask).catch(() => false);
}

/**
 * Whether a request over this connection resets the clock that ends its session. Checked after
 * connecting: a server that changes its role closes all its connections, so the answer is valid for
 * as long as this connection lives. A single address may stand for several servers, so the answer
 * of a second connection proves nothing there.
 */
export async function resetsExpiry(
  wire: Wire,
  host: Host,
  hosts: readonly Host[],
  attempt: Attempt,
  address: string | undefined,
): Promise<boolean> {
  const config = await wire.send(getData(CONFIG_NODE));
  if (config.error === 0 && readDataAndStat(config.body).data === "") return true;
  return hosts.length > 1 && isLeader(host, attempt, address);
}

/** The index of the leader. All hosts are asked at once, so that one that is down costs no time. */
export async function findLeader(
  hosts: readonly Host[],
  attempt: Attempt,
): Promise<number | undefined> {
  if (hosts.length < 2) return undefined;
  const answers = hosts.map(async (host, index) => {
    if (await isLeader(host, attempt)) return index;
    throw new Error("not the leader");
  });
  return Promise.any(answers).catch(() => undefined);
}
