// Stands in for the library pg as src/clients/postgres/pg-link.ts uses it, with connections over
// the simulated network. The pool opens connections on demand, hands out the one used last, drops
// broken ones, and can be ended. Unlike the real pool it does not close connections that were idle
// for ten seconds.

import type { Timer } from "../../../src/async/clock.ts";
import type { PgClient, PgLibrary } from "../../../src/clients/postgres/pg-link.ts";
import { Connection, type Route } from "./connection.ts";

interface PoolSettings {
  readonly max: number;
  readonly connectionTimeoutMillis: number;
}

interface Waiting {
  readonly timer: Timer;
  resolve(client: PooledConnection): void;
  reject(error: Error): void;
}

export function simulatedPg(route: Route): PgLibrary {
  return {
    Pool: class extends SimulatedPool {
      constructor(settings: PoolSettings) {
        super(route, settings);
      }
    },
    // The store uses this client only to listen.
    Client: class extends Connection {
      constructor() {
        super(route);
        const { trace, client } = route;
        trace.note(client.name, { kind: "listens", from: Number.POSITIVE_INFINITY });
      }
    },
  };
}

class PooledConnection extends Connection {
  readonly #pool: SimulatedPool;

  constructor(route: Route, pool: SimulatedPool) {
    super(route);
    this.#pool = pool;
  }

  release(error?: Error | boolean): void {
    this.#pool.takeBack(this, error !== undefined && error !== false);
  }
}

class SimulatedPool {
  readonly #route: Route;
  readonly #settings: PoolSettings;
  readonly #clients = new Set<PooledConnection>();
  readonly #idle: PooledConnection[] = [];
  readonly #waiting = new Set<Waiting>();
  readonly #onConnect: ((client: PgClient) => void)[] = [];
  #isEnding = false;
  #ended: (() => void) | undefined;

  constructor(route: Route, settings: PoolSettings) {
    this.#route = route;
    this.#settings = settings;
  }

  get totalCount(): number {
    return this.#clients.size;
  }

  /** The "error" event, for idle connections that break, is ignored: the store ignores it too. */
  on(event: "error" | "connect", listener: (client: PgClient) => void): void {
    if (event === "connect") this.#onConnect.push(listener);
  }

  connect(): Promise<PooledConnection> {
    if (this.#isEnding)
      return Promise.reject(new Error("Cannot use a pool after calling end on the pool"));
    const idle = this.#takeIdle();
    if (idle !== undefined) return Promise.resolve(idle);
    if (this.#clients.size < this.#settings.max) return this.#open();
    return new Promise((resolve, reject) => {
      const timer = this.#setLimit(() => {
        this.#waiting.delete(waiting);
        reject(new Error("timeout exceeded when trying to connect"));
      });
      const waiting: Waiting = { timer, resolve, reject };
      this.#waiting.add(waiting);
    });
  }

  takeBack(client: PooledConnection, isBroken: boolean): void {
    if (isBroken || this.#isEnding || client.isOver) this.#remove(client);
    else this.#idle.push(client);
    this.#serve();
  }

  end(): Promise<void> {
    this.#isEnding = true;
    return new Promise((resolve) => {
      this.#ended = resolve;
      for (const client of this.#idle.splice(0)) this.#remove(client);
      this.#serve();
    });
  }

  async #open(): Promise<PooledConnection> {
    const client = new PooledConnection(this.#route, this);
    this.#clients.add(client);
    const limit = this.#setLimit(() => void client.end());
    try {
      await client.connect();
    } catch (error) {
      this.#remove(client);
      this.#serve();
      throw error;
    } finally {
      limit.cancel();
    }
    for (const listener of this.#onConnect) listener(client);
    return client;
  }

  #takeIdle(): PooledConnection | undefined {
    for (;;) {
      const client = this.#idle.pop();
      if (client === undefined || !client.isOver) return client;
      this.#remove(client);
    }
  }

  #remove(client: PooledConnection): void {
    this.#clients.delete(client);
    void client.end();
  }

  /** Serves the first waiting caller, now that a connection may be available. */
  #serve(): void {
    if (this.#isEnding) {
      if (this.#clients.size === 0) this.#ended?.();
      return;
    }
    const [next] = this.#waiting;
    if (next === undefined) return;
    const idle = this.#takeIdle();
    if (idle === undefined && this.#clients.size >= this.#settings.max) return;
    this.#waiting.delete(next);
    next.timer.cancel();
    if (idle === undefined) this.#open().then(next.resolve, next.reject);
    else next.resolve(idle);
  }

  #setLimit(late: () => void): Timer {
    return this.#route.client.clock.setTimer(late, this.#settings.connectionTimeoutMillis);
  }
}
