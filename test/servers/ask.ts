// Sends one request to a server over a separate connection. The harness uses it for health checks
// and for the few commands that it needs itself. It uses no client library, so a bug in one cannot
// hide a failure.
import { connect as connectPlain, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";

export interface Address {
  readonly host: string;
  readonly port: number;
  /** If set, the connection uses TLS and trusts only this certificate. */
  readonly ca?: string | undefined;
}

/**
 * Sends `request` and passes everything received so far to `read` until `read` returns a value.
 * `ended` is true on the last call, after the server has closed the connection. Resolves to
 * undefined if there is no value within `limitMs`, or if the connection is refused or breaks.
 */
export function ask<T>(
  address: Address,
  request: string | Uint8Array,
  read: (answer: Buffer, ended: boolean) => T | undefined,
  limitMs: number,
): Promise<T | undefined> {
  return new Promise((resolve) => {
    const socket = open(address);
    let answer = Buffer.alloc(0);
    const finish = (value: T | undefined): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(value);
    };
    const timer = setTimeout(() => finish(undefined), limitMs);
    socket.on("error", () => finish(undefined));
    socket.on("end", () => finish(read(answer, true)));
    socket.on("data", (chunk: Buffer) => {
      answer = Buffer.concat([answer, chunk]);
      const value = read(answer, false);
      if (value !== undefined) finish(value);
    });
    socket.write(request);
  });
}

function open({ host, port, ca }: Address): Socket {
  return ca === undefined ? connectPlain({ host, port }) : connectTls({ host, port, ca });
}

/** The host and port in a URL. The host is 127.0.0.1 if the URL has none. */
export function parseAddress(url: string, defaultPort: number): Address {
  const { hostname, port } = new URL(url);
  return { host: hostname || "127.0.0.1", port: port === "" ? defaultPort : Number(port) };
}

/** Polls until `condition` is true. Throws an error that quotes `what` after `limitMs`. */
export async function until(
  what: string,
  condition: () => Promise<boolean>,
  limitMs: number,
): Promise<void> {
  const giveUpAt = performance.now() + limitMs;
  for (let pauseMs = 2; ; pauseMs = Math.min(20, pauseMs * 1.5)) {
    if (await condition()) return;
    if (performance.now() > giveUpAt)
      throw new Error(`This did not happen within ${limitMs} ms: ${what}.`);
    await sleep(pauseMs);
  }
}
