// One TCP connection between a client and a server of the model. The client's end looks like a socket as far as the store
// uses one; bytes arrive in order and once, late if need be, or the connection ends.

import type { Duplex } from "node:stream";
import type { Network } from "../../world/network.ts";
import type { Program } from "../../world/program.ts";
import type { Request } from "./requests.ts";

/** A request and where it came from. */
export interface Asked {
  readonly connection: Connection;
  readonly request: Request;
}

/** The server's end. */
export class Connection {
  /** 0 until the handshake is done. */
  session = 0;
  timeoutMs = 0;
  isOpen = true;
  hasSaidHello = false;
  /** Not yet answered; the first is being worked on, and the others wait for it. */
  readonly waiting: Request[] = [];
  readonly #send: (answers: readonly Buffer[]) => void;
  readonly #hangUp: (code: string | undefined) => void;
  /** What is answered while something is taken in; it leaves together. */
  #outgoing: Buffer[] | undefined;

  constructor(
    send: (answers: readonly Buffer[]) => void,
    hangUp: (code: string | undefined) => void,
  ) {
    this.#send = send;
    this.#hangUp = hangUp;
  }

  tell(bytes: Buffer): void {
    if (this.#outgoing === undefined) this.#send([bytes]);
    else this.#outgoing.push(bytes);
  }

  /** What is told meanwhile travels together, as the answers to one packet mostly do. */
  together(take: () => void): void {
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
    if (answers !== undefined && answers.length > 0) this.#send(answers);
  }
}

/** Who answers at the other end. */
export interface Listener {
  readonly program: Program;
  readonly isDown: boolean;
  accept(connection: Connection): void;
  receive(connection: Connection, bytes: Buffer): void;
  left(connection: Connection): void;
}

type Callback = (value: never) => void;

const TURN: Promise<void> = Promise.resolve();

export function dial(network: Network, client: Program, server: Listener): Duplex {
  // Only what wire.ts and leader.ts use of a stream; node's own would take turns of its own.
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
    // As a stream tells it: not within the call.
    void TURN.then(() => this.#emit("close", undefined));
  }

  /** At the server. */
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

  /** The server's kernel says that it is over. */
  #hangUp(code: string | undefined): void {
    this.#down(() => {
      if (this.destroyed) return;
      if (code === undefined) this.#emit("end", undefined);
      else this.#emit("error", Object.assign(new Error(`connect ${code}`), { code }));
      this.destroy();
    });
  }

  #leave(): void {
    // Nobody is left there to hear it.
    if (this.#accepted?.isOpen === false) return;
    this.#up(() => {
      if (this.#accepted?.isOpen !== true) return;
      this.#accepted.isOpen = false;
      this.#server.left(this.#accepted);
    });
  }

  #emit(event: string, value: unknown): void {
    for (const callback of this.#listeners.get(event) ?? []) callback(value as never);
  }
}
