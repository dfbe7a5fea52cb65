// Chooses ports for servers that are stopped and started again. The ports are below the range that
// the kernel uses for outgoing connections (32768 and up on Linux). A port in that range could be
// assigned to any client while its server is down, and a client that reconnects in a loop could
// even connect to itself.
import { createServer } from "node:net";

const LOWEST = 20_000;
const COUNT = 12_000;
const DRAWS_MAX = 100;
const ATTEMPTS_MAX = 3;
const handedOut = new Set<number>();

/** A port of 127.0.0.1 that is not in use and that this process has not handed out before. */
async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < DRAWS_MAX; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    if (handedOut.has(port) || !(await isFree(port))) continue;
    handedOut.add(port);
    return port;
  }
  throw new Error(`Expected a free port from ${LOWEST} up, got none in ${DRAWS_MAX} draws.`);
}

/**
 * A server could not listen, because another process took its port first. Another port may work.
 */
export class PortTakenError extends Error {}

/** Calls `start` with fresh ports, and retries with others if one of them is taken. */
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
