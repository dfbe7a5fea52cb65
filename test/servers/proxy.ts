// A TCP proxy on loopback, between a client and a server of the tests, that breaks the link on command: silently
// (no reset reaches either side), in one direction only, late, twice, or at once. It reads no protocol.
import { once } from "node:events";
import { createServer, type Server, Socket } from "node:net";
import { until } from "./ask.ts";
import { withFreePorts } from "./ports.ts";
import { breakOff, Lane, type LaneCounts, type LaneRules } from "./proxy-lane.ts";

export type Way = "both" | "requests" | "replies";

export interface ProxyCounts {
  /** Connections accepted so far, and those that are open now. */
  readonly connections: number;
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
   * Silently loses everything from now on; connections stay open, and new ones are accepted and lost too. A stream
   * with a hole in it cannot go on: heal() resets those that lost something.
   */
  cut(way: Way = "both"): void {
    this.#change(way, (rules) => {
      rules.flow = "drop";
    });
  }

  /** As a cut that TCP survives: nothing passes until heal(), and then all of it does, in order. */
  hold(way: Way = "both"): void {
    this.#change(way, (rules) => {
      rules.flow = "hold";
    });
  }

  /** Everything that comes from now on arrives so much later; in both ways, a round trip takes twice as much. */
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

  /** What is open now silently loses everything for ever, as when a router on the way has forgotten it. New ones are welcome. */
  strand(): void {
    this.cut();
    this.#rules.requests = { ...passing };
    this.#rules.replies = { ...passing };
  }

  /** Resets every open connection, on both sides. New ones are welcome. */
  reset(): void {
    for (const link of this.#links) breakUp(link);
  }

  /** Refuses new connections, as when nobody listens; open ones go on. */
  refuse(): void {
    this.#listener?.close();
    this.#listener = undefined;
  }

  /** Back to plain forwarding. Resolves when new connections are accepted again. */
  async heal(): Promise<void> {
    Object.assign(this.#rules.requests, passing);
    Object.assign(this.#rules.replies, passing);
    for (const link of this.#links) {
      if (link.lanes.some((lane) => lane.hasHole)) breakUp(link);
      else this.#advance(link);
    }
    await this.listen();
  }

  counts(): ProxyCounts {
    const { requests, replies } = this.#counts;
    const [connections, open] = [this.#connections, this.#links.size];
    return { connections, open, requests: { ...requests }, replies: { ...replies } };
  }

  /** Ends all connections and the listener. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.refuse();
    const ends = [...this.#links].flatMap(({ client, server }) => [client, server]);
    for (const end of ends) end.destroy();
    // Asked, not listened for: a socket that is reset while it shuts down never says that it is closed.
    const areClosed = async (): Promise<boolean> => ends.every((end) => end.closed);
    await until("the proxy's connections are closed", areClosed, CLOSE_MAX_MS);
  }

  /** @internal startProxy() and heal() call it. */
  async listen(): Promise<void> {
    if (this.#listener !== undefined) return;
    // A client that ends its side may still read: both sides end on their own.
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
      // The lane passes the break on; here it only must not be thrown.
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
    // While requests do not pass, neither does the opening of a connection.
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

/** A proxy before the server that the URL names; it forwards until told otherwise. */
export async function startProxy(server: { readonly url: string }): Promise<TcpProxy> {
  return withFreePorts(1, async ([port = 0]) => {
    const proxy = new TcpProxy(server, port);
    await proxy.listen();
    return proxy;
  });
}

function breakUp({ client, server }: Link): void {
  for (const end of [client, server]) breakOff(end);
}

function newCounts(): LaneCounts {
  return { chunks: 0, bytes: 0, droppedBytes: 0 };
}
