// The servers of an ensemble, and how one of them is dialled.

import { connect as connectPlain } from "node:net";
import type { Duplex } from "node:stream";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import type { Clock } from "../../async/clock.ts";

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

/** How long a host may take, and what ends the attempt before. */
export interface Attempt {
  readonly dial: ZooKeeperDial;
  readonly clock: Clock;
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

/** Dials and does what has to be done first on the stream; where that fails or takes too long, nothing is left open. */
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

/** Of the other side, where the stream is a socket. */
export function addressOf(stream: Duplex): string | undefined {
  return (stream as { remoteAddress?: string | undefined }).remoteAddress;
}
