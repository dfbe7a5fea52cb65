// One TCP connection from a program to the server, as the library pg presents it. Data arrives once
// and in order, possibly late, or the connection breaks. A statement that was sent is executed when
// it arrives, even if its client has given up and closed the connection: the server reads what came
// before the end.

import type { Row, SqlValue } from "../../../src/clients/postgres/link.ts";
import type { Callee } from "../../world/call.ts";
import type { Network } from "../../world/network.ts";
import type { Program } from "../../world/program.ts";
import type { Schedule } from "../../world/schedule.ts";
import type { Trace } from "../../world/trace.ts";
import type { Backend, PgServer } from "./server.ts";

export interface Route {
  readonly schedule: Schedule;
  readonly trace: Trace;
  readonly network: Network;
  readonly client: Program;
  readonly callee: Callee;
  readonly server: PgServer;
}

/** The argument of pg's query(), as far as the store uses it. */
export interface Statement {
  readonly text: string;
  readonly values?: readonly SqlValue[];
}

interface Asked {
  resolve(result: { rows: object[] }): void;
  reject(error: Error): void;
}

type Listener = (what: never) => void;

const NEVER = Number.POSITIVE_INFINITY;

export class Connection implements Backend {
  readonly client: Program;
  readonly #route: Route;
  readonly #up: (arrive: () => void) => void;
  readonly #down: (arrive: () => void) => void;
  readonly #listeners: Record<string, Listener[]> = { error: [], end: [], notification: [] };
  /** Answers come in the order of the requests, the answer to the opening first. */
  #asked: Asked[] = [];
  #isOver = false;
  #isServed = false;
  #listens = false;
  /**
   * The true instant at which everything on its way has arrived, and with it everything sent later.
   */
  #inOrderFrom = 0;

  constructor(route: Route) {
    const { network, client, callee } = route;
    this.#route = route;
    this.client = client;
    const onLate = (arrivesAt: number): void => this.#late(arrivesAt);
    this.#up = network.openStream(client, callee.program, NEVER, onLate);
    this.#down = network.openStream(callee.program, client, NEVER, onLate);
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  on(event: string, listener: Listener): void {
    this.#listeners[event]?.push(listener);
  }

  removeListener(event: string, listener: Listener): void {
    const listeners = this.#listeners[event] ?? [];
    const at = listeners.indexOf(listener);
    if (at >= 0) listeners.splice(at, 1);
  }

  /** One round trip, where a real server needs three or four. */
  connect(): Promise<unknown> {
    const { callee, server } = this.#route;
    return this.#ask(() => {
      if (callee.isDown) {
        this.#reset(refused());
        return undefined;
      }
      this.#isServed = true;
      server.open(this);
      return [];
    });
  }

  query({ text, values = [] }: Statement): Promise<{ rows: object[] }> {
    const { callee, server } = this.#route;
    return this.#ask(() => {
      if (this.#isServed && !callee.isDown) {
        if (text.startsWith("LISTEN ")) this.#begin();
        return server.execute(this, text, values);
      }
      this.#reset(broken());
      return undefined;
    });
  }

  /** The server reads this after everything that was sent before. */
  end(): Promise<void> {
    if (!this.#isOver) {
      this.#finish(new Error("Connection terminated"));
      this.#up(() => {
        this.#isServed = false;
        this.#route.server.close(this);
      });
    }
    return Promise.resolve();
  }

  notify(payload: string): void {
    this.#down(() => {
      if (!this.#isOver) this.#emit("notification", { payload });
    });
  }

  drop(abruptly: boolean): void {
    this.#isServed = false;
    this.#late(NEVER);
    if (abruptly) this.#reset(broken());
    else this.#down(() => this.#break(broken()));
  }

  #ask(handle: () => readonly Row[] | undefined): Promise<{ rows: object[] }> {
    if (this.#isOver) return Promise.reject(broken());
    return new Promise((resolve, reject) => {
      this.#asked.push({ resolve, reject });
      this.#up(() => {
        const rows = handle() as object[] | undefined;
        if (rows !== undefined) this.#down(() => this.#asked.shift()?.resolve({ rows }));
      });
    });
  }

  /**
   * The reply of a machine that has no such connection. It does not wait for earlier data, and it
   * can get lost.
   */
  #reset(error: Error): void {
    const { network, client, callee } = this.#route;
    network.send(callee.program, client, () => this.#break(error));
  }

  #break(error: Error): void {
    if (this.#isOver) return;
    this.#finish(error);
    this.#emit("error", error);
    this.#emit("end", undefined);
  }

  #begin(): void {
    this.#listens = true;
    this.#note(Math.max(this.#inOrderFrom, this.#route.schedule.now));
  }

  #late(until: number): void {
    if (until <= this.#inOrderFrom) return;
    this.#inOrderFrom = until;
    if (this.#listens) this.#note(until);
  }

  #note(from: number): void {
    const { trace, client } = this.#route;
    // A connection of an earlier process may still get here.
    if (!this.#isOver && !client.isDead) trace.note(client.name, { kind: "listens", from });
  }

  #emit(event: string, what: unknown): void {
    for (const listener of [...(this.#listeners[event] ?? [])]) listener(what as never);
  }

  #finish(error: Error): void {
    this.#late(NEVER);
    this.#isOver = true;
    const asked = this.#asked;
    this.#asked = [];
    for (const { reject } of asked) reject(error);
  }
}

function refused(): Error {
  return Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
}

function broken(): Error {
  return new Error("Connection terminated unexpectedly");
}
