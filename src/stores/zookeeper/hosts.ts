// The servers of an ensemble: how one is dialled, and what it says of its own role. Who is asked first is decided here;
// what a role means for a renewal is told in link.ts.

import { connect as connectPlain } from "node:net";
import type { Duplex } from "node:stream";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import type { Clock } from "../../core/clock.ts";

export interface Host {
  readonly host: string;
  readonly port: number;
}

/** How a connection is made: given by the user for tunnels and the like, or ours. */
export type Dial = (host: string, port: number) => Duplex | Promise<Duplex>;

export function dialer(tls: ConnectionOptions | undefined): Dial {
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

/** The answer to "srvr" is a few hundred bytes; whatever is much longer is something else. */
const ANSWER_MAX_BYTES = 16_384;

/**
 * Whether this server leads, by its own word ("srvr", the one four-letter word that is allowed by default). False where
 * it does not say so in time: then a renewal takes the longer way.
 */
export async function isLeader(
  host: Host,
  dial: Dial,
  clock: Clock,
  limitMs: number,
): Promise<boolean> {
  let stream: Duplex;
  try {
    stream = await dial(host.host, host.port);
  } catch {
    return false;
  }
  return new Promise((resolve) => {
    let answer = "";
    const finish = (): void => {
      timer.cancel();
      stream.destroy();
      resolve(/^Mode: leader$/m.test(answer));
    };
    const timer = clock.setTimer(finish, limitMs);
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
