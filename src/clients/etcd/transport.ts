// The interface between the etcd client and the network: gRPC calls and streams that carry messages
// as bytes. Http2Transport implements it. Users can pass their own channel instead.

/** gRPC metadata by name. Names are in lower case. */
export type EtcdMetadata = Readonly<Record<string, string>>;

/** A gRPC channel to etcd. Messages are passed as bytes. */
export interface EtcdTransport {
  /** The address for messages: host and port, never a password. */
  readonly place: string;
  /** Sends one request and gets one answer. Messages are passed without gRPC's frame. */
  call(path: string, message: Uint8Array, metadata: EtcdMetadata): EtcdCall;
  /** Opens a stream in both directions. */
  stream(path: string, metadata: EtcdMetadata, events: EtcdStreamEvents): EtcdStream;
  /**
   * Called when the connection stops responding. Open calls and streams must end, and the next call
   * must use a new connection.
   */
  reset(): void;
  /** Called once, when the store is closed. Do not close a channel that other code uses. */
  close(): void;
}

/** A call in progress. */
export interface EtcdCall {
  /**
   * The answer of the server. If the server answered with an error, it rejects with an error that
   * has a gRPC `code` (a number) and `details`, as in @grpc/grpc-js. Any other error means that
   * there was no answer.
   */
  readonly answer: Promise<Uint8Array>;
  /** Called when the answer is no longer needed. */
  cancel(): void;
}

/** What a stream reports. */
export interface EtcdStreamEvents {
  /** Called with each message, without gRPC's frame. */
  onMessage(message: Uint8Array): void;
  /** Called once when the stream has ended, on either side. Not called after `cancel()`. */
  onEnd(reason: unknown): void;
}

/** An open stream. */
export interface EtcdStream {
  /** Sends a message, without gRPC's frame. */
  send(message: Uint8Array): void;
  /** Ends the stream. No event is reported after that. */
  cancel(): void;
}

/** The server answered with a status other than OK. */
export class EtcdStatusError extends Error {
  readonly code: number;
  readonly details: string;

  constructor(code: number, details: string) {
    super(`${details} (gRPC status ${code})`);
    this.name = "EtcdStatusError";
    this.code = code;
    this.details = details;
  }
}

/** No answer came: the connection could not be made, or broke. */
export class EtcdLinkError extends Error {
  /** False: nothing of the request can have reached the server. */
  readonly sent: boolean;

  constructor(message: string, facts: { readonly sent: boolean; readonly cause?: unknown }) {
    super(message, { cause: facts.cause });
    this.name = "EtcdLinkError";
    this.sent = facts.sent;
  }
}
