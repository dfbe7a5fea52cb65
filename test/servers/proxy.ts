// A TCP proxy on loopback between a client and a server of the tests. It breaks the link on
// command: silently (neither side receives a reset), in one direction only, with a delay, with
// duplicates, or with a reset. It does not interpret the protocol.
import { once } from "node:events";
import { createServer, type Server, Socket } from "node:net";
import { until } from "./ask.ts";
import { withFreePorts } from "./ports.ts";
import { Lane, type LaneCounts, type LaneRules, resetConnection } from "./proxy-lane.ts";

export type Way = "both" | "requests" | "replies";

export interface ProxyCounts {
  /** Number of connections accepted so far. */
  readonly connections: number;
  /** Number of connections that are open now. */
  readonly open: number;
  /** From clients to the server. */
  readonly requests: Readonly<LaneCounts>;
  /** From the server to clients. */
  readonly replies: Readonly<LaneCounts>;
}

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  readonly lanes: readonly Lane[];
}

const CLOSE_MAX_MS = 5_000;
const passing = { flow: "pass", delayMs: 0, duplicates: false } as const satisfies LaneRules;

export class TcpProxy implements AsyncDisposable {
  readonly host = "127.0.0.1";
  readonly port: number;
  /** The server's URL, with the proxy's address in place of the server's. */
  readonly url: string;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #rules = { requests: { ...passing } as LaneRules, replies: { ...passing } as LaneRules };
  readonly #counts = { requests: newCounts(), replies: newCounts() };
  readonly #links = new Set<Link>();
  #connections = 0;
  #listener: Server | undefined;

  /** Use startProxy(). */
  constructor(server: { readonly url: string }, port: number) {
    const url = new URL(server.url);
    this.#target = { host: url.hostname, port: Number(url.port) };
    this.port = port;
    url.host = `${this.host}:${port}`;
    this.url = url.href;
  }

  /**
   * Silently discards everything from now on. Connections stay open, and new ones are accepted and
   * affected too. A stream with missing bytes cannot continue, so heal() resets the connections
   * that lost any.
   */
  cut(way: Way = "both"): void {
    this.#change(way, (rules) => {
      rules.flow = "drop";
    });
  }

  /**
   * Like a cut that TCP survives: nothing passes until heal(), and then everything does, in order.
   */
  hold(way: Way = "both"): void {
    this.#change(way, (rules) => {
      rules.flow = "hold";
    });
  }

  /**
   * Delays everything received from now on by `delayMs`. With a delay in both directions, a round
   * trip takes twice that.
   */
  delay(delayMs: number, way: Way = "both"): void {
    this.#change(way, (rules) => {
      rules.delayMs = delayMs;
    });
  }

  /** Sends every chunk from a client to the server twice. */
  duplicate(): void {
    this.#change("requests", (rules) => {
      rules.duplicates = true;
    });
  }

  /**
   * Silently discards everything on the connections that are open now, permanently, like a router
   * that has lost its state. New connections work.
   */
  strand(): void {
    this.cut();
    this.#rules.requests = { ...passing };
    this.#rules.replies = { ...passing };
  }

  /** Resets every open connection on both sides. New connections work. */
  reset(): void {
    for (const link of this.#links) resetLink(link);
  }

  /** Refuses new connections, as if the server were not listening. Open connections continue. */
  refuse(): void {
    this.#listener?.close();
    this.#listener = undefined;
  }

  /** Returns to plain forwarding. Resolves when new connections are accepted again. */
  async heal(): Promise<void> {
    Object.assign(this.#rules.requests, passing);
    Object.assign(this.#rules.replies, passing);
    for (const link of this.#links) {
      if (link.lanes.some((lane) => lane.hasHole)) resetLink(link);
      else this.#advance(link);
    }
    await this.listen();
  }

  counts(): ProxyCounts {
    const { requests, replies } = this.#counts;
    const [connections, open] = [this.#connections, this.#links.size];
    return { connections, open, requests: { ...requests }, replies: { ...replies } };
  }

  /** Closes all connections and the listener. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.refuse();
    const ends = [...this.#links].flatMap(({ client, server }) => [client, server]);
    for (const end of ends) end.destroy();
    // Polled, because a socket that is reset while it shuts down emits no "close" event.
    const areClosed = async (): Promise<boolean> => ends.every((end) => end.closed);
    await until("the proxy's connections are closed", areClosed, CLOSE_MAX_MS);
  }

  /** @internal Called by startProxy() and heal(). */
  async listen(): Promise<void> {
    if (this.#listener !== undefined) return;
    // A client that has ended its side may still read, so both sides end separately.
    const listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      this.#connect(client);
    });
    this.#listener = listener;
    listener.listen(this.port, this.host);
    await once(listener, "listening");
  }

  #connect(client: Socket): void {
    const server = new Socket({ allowHalfOpen: true });
    const lanes = [
      new Lane({ source: client, target: server }, this.#rules.requests, this.#counts.requests),
      new Lane({ source: server, target: client }, this.#rules.replies, this.#counts.replies),
    ];
    const link = { client, server, lanes };
    for (const end of [client, server]) {
      // The lane forwards the reset. Without this listener, the error would be thrown.
      end.on("error", () => undefined);
      end.on("close", () => {
        if (client.closed && server.closed) this.#links.delete(link);
      });
    }
    this.#connections += 1;
    this.#links.add(link);
    this.#advance(link);
  }

  #advance({ server, lanes }: Link): void {
    // While requests do not pass, no connection to the server is opened either.
    const isNew = server.pending && !server.connecting && !server.destroyed;
    if (isNew && this.#rules.requests.flow === "pass") {
      server.connect({ ...this.#target, noDelay: true });
    }
    for (const lane of lanes) lane.pump();
  }

  #change(way: Way, change: (rules: LaneRules) => void): void {
    if (way !== "replies") change(this.#rules.requests);
    if (way !== "requests") change(this.#rules.replies);
    for (const link of this.#links) this.#advance(link);
  }
}

/**
 * Starts a proxy in front of the server that the URL names. It forwards until a method changes
 * that.
 */
export async function startProxy(server: { readonly url: string }): Promise<TcpProxy> {
  return withFreePorts(1, async ([port = 0]) => {
    const proxy = new TcpProxy(server, port);
    await proxy.listen();
    return proxy;
  });
}

function resetLink({ client, server }: Link): void {
  for (const end of [client, server]) resetConnection(end);
}

function newCounts(): LaneCounts {
  return { chunks: 0, bytes: 0, droppedBytes: 0 };
}
