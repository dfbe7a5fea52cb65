// PostgreSQL's advisory locks through pg. The server wakes the next waiter. There is no ttl, no
// token and no disk write: a lock ends with its connection.
import pg from "pg";

const POOL_MAX = 70;

function toKey(resource) {
  let key = 0;
  for (const letter of resource) key = (key * 31 + letter.charCodeAt(0)) | 0;
  return key;
}

/** Named, as Tenure's queries are: each connection parses it once. */
function query(action, resource) {
  return { name: action, text: `SELECT pg_advisory_${action}($1)`, values: [toKey(resource)] };
}

/** All locks on one connection. Nothing is renewed. */
export async function holder({ url }) {
  const client = new pg.Client({ connectionString: url });
  let hasEnded = false;
  client.on("end", () => {
    hasEnded = true;
  });
  client.on("error", () => undefined);
  await client.connect();
  return {
    acquire: async (resource) => {
      await client.query(query("lock", resource));
      return { isHeld: () => !hasEnded };
    },
  };
}

export async function locker({ url }) {
  const pool = new pg.Pool({ connectionString: url, max: POOL_MAX });
  pool.on("error", () => undefined);
  await pool.query("SELECT 1");
  return {
    lock: async (resource) => {
      const client = await pool.connect();
      await client.query(query("lock", resource));
      return async () => {
        await client.query(query("unlock", resource));
        client.release();
      };
    },
    close: () => pool.end(),
  };
}
