// One TCP connection between a client and a server of the model. The client's end implements the
// part of a socket that the store uses. Bytes arrive once and in order, possibly late, or the
// connection ends.

import type { Duplex } from "node:stream";
import type { Network } from "../../world/network.ts";
import type { Program } from "../../world/program.ts";
import type { Request } from "./requests.ts";

/** A request and the connection it came from. */
export interface Asked {
  readonly connection: Connection;
  readonly request: Request;
}

/** The server's end of the connection. */
export class Connection {
  /** 0 until the handshake is done. */
  session = 0;
  timeoutMs = 0;
  isOpen = true;
  isHandshakeDone = false;
  /** Unanswered requests. The first is being processed, and the others wait for it. */
  readonly waiting: Request[] = [];
  readonly #transmit: (answers: readonly Buffer[]) => void;
  readonly #hangUp: (code: string | undefined) => void;
  /** Collects the answers to one packet, so that they leave together. */
  #outgoing: Buffer[] | undefined;

  constructor(
    send: (answers: readonly Buffer[]) => void,
    hangUp: (code: string | undefined) => void,
  ) {
    this.#transmit = send;
    this.#hangUp = hangUp;
  }

  send(bytes: Buffer): void {
    if (this.#outgoing === undefined) this.#transmit([bytes]);
    else this.#outgoing.push(bytes);
  }

  /** Sends everything that `take` answers in one packet, as a server mostly does. */
  batch(take: () => void): void {
    this.#outgoing = [];
    take();
    this.#flush();
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#flush();
    this.#hangUp(undefined);
  }

  #flush(): void {
    const answers = this.#outgoing;
    this.#outgoing = undefined;
    if (answers !== undefined && answers.length > 0) this.#transmit(answers);
  }
}

/** The server as the connection sees it. Each method runs in a turn of `program`. */
export interface Listener {
  readonly program: Program;
  readonly isDown: boolean;
  accept(connection: Connection): void;
  receive(connection: Connection, bytes: Buffer): void;
  disconnected(connection: Connection): void;
}

type Callback = (value: never) => void;

export function dial(network: Network, client: Program, server: Listener): Duplex {
  // Implements only what src/clients/zookeeper uses of a stream. Node's own stream needs the real
  // event loop.
  return new ClientEnd(network, client, server) as unknown as Duplex;
}

class ClientEnd {
  readonly remoteAddress: string;
  destroyed = false;
  writableEnded = false;
  readonly #listeners = new Map<string, Callback[]>();
  readonly #server: Listener;
  readonly #up: (arrive: () => void) => void;
  readonly #down: (arrive: () => void) => void;
  #accepted: Connection | undefined;

  constructor(network: Network, client: Program, server: Listener) {
    this.#server = server;
    this.remoteAddress = server.program.name;
    this.#up = network.openStream(client, server.program);
    this.#down = network.openStream(server.program, client);
  }

  on(event: string, callback: Callback): void {
    const callbacks = this.#listeners.get(event);
    if (callbacks === undefined) this.#listeners.set(event, [callback]);
    else callbacks.push(callback);
  }

  write(bytes: Buffer | string): void {
    const sent = typeof bytes === "string" ? Buffer.from(bytes) : bytes;
    this.#up(() => this.#arrived(sent));
  }

  end(done: () => void): void {
    this.writableEnded = true;
    this.#leave();
    done();
  }

  destroy(): void {
    if (this.destroyed) return;
    if (!this.writableEnded) this.#leave();
    this.destroyed = true;
    // A stream emits this asynchronously.
    void Promise.resolve().then(() => this.#emit("close", undefined));
  }

  /** Runs at the server. */
  #arrived(bytes: Buffer): void {
    const server = this.#server;
    if (this.#accepted === undefined) {
      if (server.isDown) {
        this.#hangUp("ECONNREFUSED");
        return;
      }
      const send = (answers: readonly Buffer[]): void =>
        this.#down(() => {
          for (const answer of answers) if (!this.destroyed) this.#emit("data", answer);
        });
      this.#accepted = new Connection(send, (code) => this.#hangUp(code));
      server.accept(this.#accepted);
    }
    if (this.#accepted.isOpen) server.receive(this.#accepted, bytes);
  }

  /** The server's kernel closes the connection. */
  #hangUp(code: string | undefined): void {
    this.#down(() => {
      if (this.destroyed) return;
      if (code === undefined) this.#emit("end", undefined);
      else this.#emit("error", Object.assign(new Error(`connect ${code}`), { code }));
      this.destroy();
    });
  }

  #leave(): void {
    // The server has already closed it.
    if (this.#accepted?.isOpen === false) return;
    this.#up(() => {
      if (this.#accepted?.isOpen !== true) return;
      this.#accepted.isOpen = false;
      this.#server.disconnected(this.#accepted);
    });
  }

  #emit(event: string, value: unknown): void {
    for (const callback of this.#listeners.get(event) ?? []) callback(value as never);
  }
}
