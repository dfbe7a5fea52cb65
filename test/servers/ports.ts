// Ports for servers that will be stopped and started again. They lie below the range from which the kernel
// takes the ports of outgoing connections (32768 and up on Linux): a port of that range, free while its server
// is down, may be given to any client on this host, and a client that retries in a loop can even meet itself.
import { createServer } from "node:net";

const LOWEST = 20_000;
const COUNT = 12_000;
const DRAWS_MAX = 100;
const ATTEMPTS_MAX = 3;
const handedOut = new Set<number>();

/** A port of 127.0.0.1 on which nobody listens, and which this process was not given before. */
async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < DRAWS_MAX; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    if (handedOut.has(port) || !(await isFree(port))) continue;
    handedOut.add(port);
    return port;
  }
  throw new Error(`Expected a free port from ${LOWEST} up, got none in ${DRAWS_MAX} draws.`);
}

/** A server could not listen because somebody was quicker: worth another try on another port. */
export class PortTakenError extends Error {}

/** Gives `start` fresh ports, and others when one of them turns out to be taken. */
export async function withFreePorts<T>(
  count: number,
  start: (ports: readonly number[]) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const ports: number[] = [];
    for (let index = 0; index < count; index += 1) ports.push(await freePort());
    try {
      return await start(ports);
    } catch (error) {
      if (!isPortTaken(error) || attempt === ATTEMPTS_MAX) throw error;
    }
  }
}

function isPortTaken(error: unknown): boolean {
  return error instanceof PortTakenError || (error as NodeJS.ErrnoException).code === "EADDRINUSE";
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () =>
      server.close(() => resolve(true)),
    );
  });
}
