// For the tests of the proxy: a server that sends back what it gets, and clients that remember what happened to them.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Echo extends AsyncDisposable {
  readonly url: string;
  /** Every connection so far, in order. */
  readonly accepted: readonly Socket[];
  /** All that came, over all connections. */
  received(): string;
  /** No more connections; those that are open go on. */
  close(): void;
}

export type End = "closed" | "reset" | "refused";

export interface EchoClient {
  readonly socket: Socket;
  readonly ended: Promise<End>;
  received(): string;
  /** Resolves when that many bytes have come. */
  has(bytes: number): Promise<string>;
}

export async function startEcho(): Promise<Echo> {
  const accepted: Socket[] = [];
  let received = "";
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    accepted.push(socket);
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      received += chunk;
      socket.write(chunk);
    });
    socket.on("end", () => socket.end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `echo://127.0.0.1:${(server.address() as AddressInfo).port}/x`,
    accepted,
    received: () => received,
    close: () => void server.close(),
    [Symbol.asyncDispose]: async () => {
      for (const socket of accepted) socket.destroy();
      server.close();
    },
  };
}

export function joinEcho(port: number): EchoClient {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let received = "";
  socket.on("data", (chunk) => {
    received += chunk;
  });
  const has = async (bytes: number): Promise<string> => {
    while (received.length < bytes) await once(socket, "data");
    return received;
  };
  return { socket, ended: endOf(socket), received: () => received, has };
}

/** How the connection ends, seen from this side. */
export function endOf(socket: Socket | undefined): Promise<End> {
  let fault: string | undefined;
  socket?.on("error", (error: NodeJS.ErrnoException) => {
    fault = error.code;
  });
  return new Promise((resolve) => {
    socket?.on("close", () => {
      if (fault === undefined) resolve("closed");
      else resolve(fault === "ECONNREFUSED" ? "refused" : "reset");
    });
  });
}
