// The tables of a store file. A lease row is the token counter of its resource. Tenure never deletes one. If a person does,
// the next token starts at the wall clock, which is above all earlier ones (S1), and the trigger revokes the lease, so
// that its holder learns about it from the next renewal.

/** Written into the file's header: tells our files from other people's SQLite files. ASCII "TENU". */
export const APPLICATION_ID = 0x54454e55;
export const SCHEMA_VERSION = 1;

export const SCHEMA: string = `
  -- What is renewed. A missing row is a dead session; ids are never used again.
  CREATE TABLE session (
    id TEXT PRIMARY KEY,
    holder_id TEXT NOT NULL,
    -- 0 when it was ended; the row is then only there to tell since when.
    ttl_ms INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    -- By the clock of that boot.
    expires_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE lease (
    resource TEXT PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token > 0),
    -- Null after a release. While its session lives, the lease is held.
    session TEXT,
    -- The newest attempt that was granted, also after its end.
    attempt TEXT NOT NULL,
    record TEXT NOT NULL,
    freed_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE waiter (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    resource TEXT NOT NULL,
    session TEXT NOT NULL,
    attempt TEXT NOT NULL UNIQUE
  ) STRICT;
  CREATE INDEX waiter_by_resource ON waiter (resource, place);

  -- Leases that were revoked. Renewals report them until the holder acknowledges them or its session ends.
  CREATE TABLE revocation (
    session TEXT NOT NULL,
    resource TEXT NOT NULL,
    token INTEGER NOT NULL,
    PRIMARY KEY (session, resource, token)
  ) STRICT, WITHOUT ROWID;

  CREATE TRIGGER lease_deleted AFTER DELETE ON lease WHEN OLD.session IS NOT NULL BEGIN
    INSERT OR IGNORE INTO revocation (session, resource, token) VALUES (OLD.session, OLD.resource, OLD.token);
  END;
  CREATE TRIGGER token_lowered BEFORE UPDATE OF token ON lease WHEN NEW.token < OLD.token BEGIN
    SELECT RAISE(ABORT, 'A token never falls: a lower one would admit writes of an earlier holder.');
  END;

  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`;
