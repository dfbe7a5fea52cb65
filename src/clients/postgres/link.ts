// The narrow seam to PostgreSQL: what the store needs of a client library. pg-link.ts and postgresjs-link.ts are the two
// that have it. A link sends and receives; limits, retries and the meaning of errors are the store's (requests.ts).

/** Values travel as text (`$1::text::bigint`), so that neither library converts them in its own way. */
export type SqlValue = string | null;
export type Row = Readonly<Record<string, string | null>>;

/** One request: one statement, one round trip. */
export interface Call {
  readonly text: string;
  readonly values: readonly SqlValue[];
  /** The link sets this right before the statement leaves: an error before that means that nothing was applied. */
  sent: boolean;
  /** Set by the link: nobody waits for the answer any more, so its connection must not be used again. */
  abandon: (() => void) | undefined;
}

/** One connection of its own, which hears what is told on a channel. */
export interface Ear {
  /** Rejects when the connection is dead. */
  ping(): Promise<void>;
  close(): void;
}

export interface Hearing {
  /** Called for every notification on the channel. */
  heard(payload: string): void;
  /** Called once when the connection breaks, not after `close`. */
  broke(): void;
}

export interface PgLink {
  readonly library: "pg" | "postgres";
  /** Where it leads, for messages: host, port and database, never a password. */
  readonly address: string;
  query(call: Call): Promise<readonly Row[]>;
  /** Whether the server has accepted a connection. Absent for a client of the user's, which may only be busy. */
  readonly isReached?: () => boolean;
  /** Opens a further connection and listens; undefined when this link cannot open one. */
  readonly listen: ((channel: string, hearing: Hearing) => Promise<Ear>) | undefined;
  /** Frees what the link itself has opened; a client that the user gave stays open. */
  close(): Promise<void>;
}
