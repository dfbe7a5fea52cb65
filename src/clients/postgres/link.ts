// What the store needs of a client library. pg-link.ts and postgresjs-link.ts provide it. A link
// sends and receives; time limits, retries and the meaning of errors are in requests.ts.

/** Sent as text (`$1::text::bigint`), so that neither library converts it in its own way. */
export type SqlValue = string | null;
export type Row = Readonly<Record<string, string | null>>;

/** One request: one statement, one round trip. */
export interface Call {
  readonly text: string;
  readonly values: readonly SqlValue[];
  /**
   * The link sets this right before it sends. An error before that means that nothing was applied.
   */
  sent: boolean;
  /** Set by the link. The answer is not awaited any more, so its connection must not be reused. */
  abandon: (() => void) | undefined;
}

/** A connection that listens to a channel. */
export interface Listening {
  /** Rejects if the connection is dead. */
  ping(): Promise<void>;
  close(): void;
}

export interface ListeningEvents {
  onNotification(payload: string): void;
  /** Called once when the connection breaks, not after `close`. */
  onBroken(): void;
}

export interface PgLink {
  readonly library: "pg" | "postgres";
  /** The target, for messages: host, port and database, never a password. */
  readonly address: string;
  query(call: Call): Promise<readonly Row[]>;
  /**
   * Whether the server has accepted a connection. Absent for a client of the user, which may merely
   * be busy.
   */
  readonly isReached?: () => boolean;
  /** Opens another connection that listens. Undefined if this link cannot open one. */
  readonly listen: ((channel: string, events: ListeningEvents) => Promise<Listening>) | undefined;
  /** Closes what the link itself has opened. A client of the user stays open. */
  close(): Promise<void>;
}
