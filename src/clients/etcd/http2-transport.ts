// gRPC over node:http2 to one member of the cluster. It has one connection, opened on first use and
// again after it broke. Neither the connection nor its timers keep the process alive; the caller of
// a request does.

import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import type { SecureContextOptions } from "node:tls";
import type { Clock, Timer } from "../../async/clock.ts";
import { frame } from "./grpc-frames.ts";
import { listen } from "./http2-stream.ts";
import {
  type EtcdCall,
  EtcdLinkError,
  type EtcdMetadata,
  type EtcdStream,
  type EtcdStreamEvents,
  type EtcdTransport,
} from "./transport.ts";

/** The options of tls.connect() that apply to etcd. */
export interface EtcdTlsOptions
  extends Pick<SecureContextOptions, "ca" | "cert" | "key" | "passphrase" | "pfx"> {
  /** The name that the certificate must have. @default the host in the URL */
  readonly servername?: string | undefined;
  /** If false, every certificate is accepted, including one of an attacker. @default true */
  readonly rejectUnauthorized?: boolean | undefined;
}

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly tls: EtcdTlsOptions | undefined;
  /** How long opening a connection may take. */
  readonly connectMs: number;
}

/** etcd disconnects clients that ping more often than every 5 s. */
const PING_EVERY_MS = 6_000;
const PING_LIMIT_MS = 3_000;
const WINDOW_BYTES = 1 << 20;

interface Connection {
  readonly session: ClientHttp2Session;
  isConnected: boolean;
  streams: number;
  pingTimer: Timer | undefined;
}

export class Http2Transport implements EtcdTransport {
  readonly place: string;
  readonly #clock: Clock;
  readonly #target: Target;
  readonly #origin: string;
  /** All open connections. There are several while a server that shuts down still answers. */
  readonly #connections = new Set<Connection>();
  /** The connection for new requests. */
  #connection: Connection | undefined;
  #closed = false;

  constructor(target: Target, clock: Clock) {
    this.#clock = clock;
    this.#target = target;
    const host = target.host.includes(":") ? `[${target.host}]` : target.host;
    this.place = `${host}:${target.port}`;
    this.#origin = `${target.tls === undefined ? "http" : "https"}://${this.place}`;
  }

  call(path: string, message: Uint8Array, metadata: EtcdMetadata): EtcdCall {
    let stream: ClientHttp2Stream | undefined;
    const answer = new Promise<Uint8Array>((resolve, reject) => {
      const connection = this.#connected();
      stream = this.#open(connection, path, metadata);
      let received: Buffer | undefined;
      listen(stream, () => connection.isConnected, {
        onMessage: (body) => {
          received = body;
        },
        onEnd: (error) => {
          if (error !== undefined) reject(error);
          else if (received !== undefined) resolve(received);
          else reject(new EtcdLinkError("the answer was empty", { sent: true }));
        },
      });
      stream.end(frame(message));
    });
    return { answer, cancel: () => cancel(stream) };
  }

  stream(path: string, metadata: EtcdMetadata, events: EtcdStreamEvents): EtcdStream {
    const connection = this.#connected();
    const stream = this.#open(connection, path, metadata);
    let isOver = false;
    const finish = (): boolean => {
      if (isOver) return false;
      isOver = true;
      connection.streams -= 1;
      if (connection.streams === 0) connection.pingTimer?.cancel();
      return true;
    };
    connection.streams += 1;
    if (connection.streams === 1) this.#pingLater(connection);
    listen(stream, () => connection.isConnected, {
      onMessage: (message) => {
        if (!isOver) events.onMessage(message);
      },
      onEnd: (error) => {
        if (finish()) events.onEnd(error ?? new EtcdLinkError("the stream ended", { sent: true }));
      },
    });
    return {
      send: (message) => {
        if (!isOver) stream.write(frame(message));
      },
      cancel: () => {
        if (finish()) cancel(stream);
      },
    };
  }

  reset(): void {
    const connection = this.#connection;
    if (connection !== undefined) this.#drop(connection, new Error("the server did not answer"));
  }

  close(): void {
    this.#closed = true;
    for (const connection of this.#connections)
      this.#drop(connection, new Error("the store was closed"));
  }

  #open(connection: Connection, path: string, metadata: EtcdMetadata): ClientHttp2Stream {
    try {
      return connection.session.request({
        ":method": "POST",
        ":path": path,
        "content-type": "application/grpc",
        te: "trailers",
        ...metadata,
      });
    } catch (cause) {
      // The connection is closing, and its event has not arrived yet.
      this.#forget(connection);
      throw new EtcdLinkError("the connection is closing", { sent: false, cause });
    }
  }

  #connected(): Connection {
    if (this.#closed) throw new EtcdLinkError("the store is closed", { sent: false });
    if (this.#connection !== undefined) return this.#connection;
    const { tls = {}, connectMs } = this.#target;
    const session = connect(this.#origin, { maxSessionMemory: 64, ...tls });
    session.unref();
    const connection: Connection = {
      session,
      isConnected: false,
      streams: 0,
      pingTimer: undefined,
    };
    const late = this.#clock.setTimer(
      () => this.#drop(connection, new Error(`no connection within ${connectMs} ms`)),
      connectMs,
    );
    session.once("connect", () => {
      late.cancel();
      // Node delays this event. The session may have been destroyed in the meantime.
      if (session.destroyed) return;
      connection.isConnected = true;
      session.setLocalWindowSize(WINDOW_BYTES);
    });
    session.once("goaway", () => this.#forget(connection));
    // Every stream gets its own error.
    session.on("error", () => undefined);
    session.once("close", () => {
      late.cancel();
      connection.pingTimer?.cancel();
      this.#connections.delete(connection);
      this.#forget(connection);
    });
    this.#connections.add(connection);
    this.#connection = connection;
    return connection;
  }

  #drop(connection: Connection, reason: Error): void {
    this.#forget(connection);
    connection.session.destroy(reason, constants.NGHTTP2_CANCEL);
  }

  #forget(connection: Connection): void {
    if (this.#connection === connection) this.#connection = undefined;
  }

  /** While no stream receives anything, only a ping shows whether the server still responds. */
  #pingLater(connection: Connection): void {
    connection.pingTimer?.cancel();
    connection.pingTimer = this.#clock.setTimer(() => {
      if (connection.session.closed || connection.session.destroyed) return;
      connection.pingTimer = this.#clock.setTimer(
        () => this.#drop(connection, new Error(`no answer to a ping for ${PING_LIMIT_MS} ms`)),
        PING_LIMIT_MS,
      );
      connection.session.ping((error) => {
        connection.pingTimer?.cancel();
        if (error === null && connection.streams > 0) this.#pingLater(connection);
      });
    }, PING_EVERY_MS);
  }
}

function cancel(stream: ClientHttp2Stream | undefined): void {
  if (stream !== undefined && !stream.closed) stream.close(constants.NGHTTP2_CANCEL);
}
