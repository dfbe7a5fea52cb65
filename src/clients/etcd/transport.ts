// The narrow seam to etcd: gRPC calls and streams that carry messages as bytes. Http2Transport is ours; whoever has a
// channel of their own passes an object of this shape.

/** gRPC metadata: names in small letters. */
export type Metadata = Readonly<Record<string, string>>;

/** A gRPC channel to etcd. Messages are passed as bytes. */
export interface EtcdTransport {
  /** What may be shown to a person: host and port, never a password. */
  readonly place: string;
  /** One request, one answer: the messages alone, without gRPC's frame. */
  call(path: string, message: Uint8Array, metadata: Metadata): EtcdCall;
  /** Opens a stream in both directions. */
  stream(path: string, metadata: Metadata, events: StreamEvents): EtcdStream;
  /** Nothing comes back on this connection: the next call must use a new one. Open calls and streams end. */
  reset(): void;
  /** Called once, when the store is closed. Leave a channel alone that others use. */
  close(): void;
}

/** A call in progress. */
export interface EtcdCall {
  /**
   * Rejects with an error that has a gRPC `code` (a number) and `details` when the server answered so, as those of
   * @grpc/grpc-js have; any other error means that no answer came.
   */
  readonly answer: Promise<Uint8Array>;
  /** Nobody waits for the answer any more. */
  cancel(): void;
}

/** What a stream reports. */
export interface StreamEvents {
  /** Called with each message, without gRPC's frame. */
  onMessage(message: Uint8Array): void;
  /** The end, once, whoever caused it; not after `cancel()`. */
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
