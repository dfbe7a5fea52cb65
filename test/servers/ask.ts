// One question to a server over a connection of its own: for checks whether it answers, and for the few commands
// that the harness itself needs. No client library, so that a fault in one cannot hide here.
import { connect as connectPlain, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";

export interface Address {
  readonly host: string;
  readonly port: number;
  /** With it the connection is TLS, and only this certificate is trusted. */
  readonly ca?: string | undefined;
}

/**
 * Sends `question` and collects the answer until `read` makes something of it; `ended` tells it that no more will
 * come. Undefined when it made nothing of it within `limitMs`, or when the connection was refused or broke.
 */
export function ask<T>(
  address: Address,
  question: string | Uint8Array,
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
    socket.write(question);
  });
}

function open({ host, port, ca }: Address): Socket {
  return ca === undefined ? connectPlain({ host, port }) : connectTls({ host, port, ca });
}

/** Host and port that a URL names. */
export function addressOf(url: string, defaultPort: number): Address {
  const { hostname, port } = new URL(url);
  return { host: hostname || "127.0.0.1", port: port === "" ? defaultPort : Number(port) };
}

/** Asks again and again until the answer is yes; fails, quoting `what`, when it stays no for `limitMs`. */
export async function until(
  what: string,
  isSo: () => Promise<boolean>,
  limitMs: number,
): Promise<void> {
  const giveUpAt = performance.now() + limitMs;
  for (let pauseMs = 2; ; pauseMs = Math.min(20, pauseMs * 1.5)) {
    if (await isSo()) return;
    if (performance.now() > giveUpAt) throw new Error(`It did not come true in time: ${what}.`);
    await sleep(pauseMs);
  }
}
