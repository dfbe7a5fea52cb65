// PostgreSQL's advisory locks over pg: the server wakes the next one. No ttl, no token, no disk: they end with the connection.
import pg from "pg";

const POOL_MAX = 70;

function keyOf(resource) {
  let key = 0;
  for (const letter of resource) key = (key * 31 + letter.charCodeAt(0)) | 0;
  return key;
}

/** Named, as Tenure's queries are: parsed once a connection. */
function lockQuery(resource) {
  return { name: "lock", text: "SELECT pg_advisory_lock($1)", values: [keyOf(resource)] };
}

function unlockQuery(resource) {
  return { name: "unlock", text: "SELECT pg_advisory_unlock($1)", values: [keyOf(resource)] };
}

export async function locker({ url }) {
  const pool = new pg.Pool({ connectionString: url, max: POOL_MAX });
  pool.on("error", () => undefined);
  await pool.query("SELECT 1");
  return {
    lock: async (resource) => {
      const client = await pool.connect();
      await client.query(lockQuery(resource));
      return async () => {
        await client.query(unlockQuery(resource));
        client.release();
      };
    },
    close: () => pool.end(),
  };
}

export async function open({ url }) {
  const { hold } = await holder({ url });
  return { acquire: hold };
}

/** Holds any number on one connection. Nothing is renewed; what ends them is the end of the connection. */
export async function holder({ url }) {
  const client = new pg.Client({ connectionString: url });
  let hasEnded = false;
  client.on("end", () => {
    hasEnded = true;
  });
  client.on("error", () => undefined);
  await client.connect();
  return {
    hold: async (resource) => {
      await client.query(lockQuery(resource));
      return { isHeld: () => !hasEnded };
    },
  };
}
