// Helpers for the tests of the proxy: a server that echoes what it receives, and clients that
// record how their connection ends.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Echo extends AsyncDisposable {
  readonly url: string;
  /** Every connection so far, in order. */
  readonly accepted: readonly Socket[];
  /** Everything received so far, over all connections. */
  received(): string;
  /** Refuses new connections. Open connections stay open. */
  close(): void;
}

export type End = "closed" | "reset" | "refused";

export interface EchoClient {
  readonly socket: Socket;
  readonly ended: Promise<End>;
  received(): string;
  /** Resolves when at least `bytes` bytes have been received. */
  receive(bytes: number): Promise<string>;
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

export function connectEcho(port: number): EchoClient {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let received = "";
  socket.on("data", (chunk) => {
    received += chunk;
  });
  const receive = async (bytes: number): Promise<string> => {
    while (received.length < bytes) await once(socket, "data");
    return received;
  };
  return { socket, ended: waitForEnd(socket), received: () => received, receive };
}

/** Resolves when the connection has ended, as this side sees it. */
export function waitForEnd(socket: Socket | undefined): Promise<End> {
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
