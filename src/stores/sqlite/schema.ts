// The tables of a store file. The row of a lease is also the token counter of its resource, and
// Tenure never deletes it. If a person does, the next token starts at the wall clock, which is
// above all earlier ones (S1), and the trigger revokes the lease, so that its holder learns of it.

/** In the header of the file. Distinguishes our files from other SQLite files. ASCII "TENU". */
export const APPLICATION_ID = 0x54454e55;
export const SCHEMA_VERSION = 2;

export const SCHEMA: string = `
  -- A session without a row has ended. Ids are never used again.
  CREATE TABLE session (
    id TEXT PRIMARY KEY,
    holder_id TEXT NOT NULL,
    ttl_ms INTEGER NOT NULL,
    quiet_after_ms INTEGER NOT NULL,
    -- The clock of this boot decides when the session expires and from when on it is quiet.
    boot_id TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    quiet_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE lease (
    resource TEXT PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token > 0),
    -- Null after a release. The lease is held while this session is alive.
    session TEXT,
    -- The newest attempt that was granted. Kept after its end.
    attempt TEXT NOT NULL,
    record TEXT NOT NULL,
    -- By the clock of that boot. For readers.
    granted_ms INTEGER NOT NULL,
    granted_boot_id TEXT NOT NULL,
    -- 0: granted by a handoff that the holder has not accepted yet.
    is_accepted INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX unaccepted_lease ON lease (session) WHERE is_accepted = 0;

  -- The queues. The order is that of queue-policy.ts: by rank, then by arrival.
  CREATE TABLE waiter (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    resource TEXT NOT NULL,
    session TEXT NOT NULL,
    attempt TEXT NOT NULL UNIQUE,
    holder_id TEXT NOT NULL,
    rank INTEGER NOT NULL,
    -- The record of the lease, once it is granted.
    record TEXT NOT NULL
  ) STRICT;
  CREATE INDEX waiter_by_resource ON waiter (resource, rank, place);
  CREATE INDEX waiter_by_session ON waiter (session);

  -- Leases that were revoked. Renewals report them until the holder acknowledges them or its
  -- session ends.
  CREATE TABLE revocation (
    session TEXT NOT NULL,
    resource TEXT NOT NULL,
    token INTEGER NOT NULL,
    PRIMARY KEY (session, resource, token)
  ) STRICT, WITHOUT ROWID;

  CREATE TRIGGER lease_deleted AFTER DELETE ON lease WHEN OLD.session IS NOT NULL BEGIN
    INSERT OR IGNORE INTO revocation (session, resource, token)
    VALUES (OLD.session, OLD.resource, OLD.token);
  END;
  CREATE TRIGGER token_lowered BEFORE UPDATE OF token ON lease WHEN NEW.token < OLD.token BEGIN
    SELECT RAISE(ABORT, 'A token never falls: a lower one would admit writes of an earlier holder.');
  END;

  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`;
