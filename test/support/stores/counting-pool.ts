// A wrapper around a pg pool that counts the statements sent through it, or only some of them.
import type pg from "pg";

export interface CountingPool {
  statements: number;
  readonly totalCount: number;
  connect(): Promise<{
    query(statement: { text: string; values?: string[] }): Promise<pg.QueryResult>;
    on: pg.PoolClient["on"];
    removeListener: pg.PoolClient["removeListener"];
    release(broken?: boolean): void;
  }>;
}

export function countingPool(
  pool: pg.Pool,
  counts: (text: string) => boolean = () => true,
): CountingPool {
  const counting: CountingPool = {
    statements: 0,
    totalCount: 0,
    connect: async () => {
      const client = await pool.connect();
      return {
        query: (statement) => {
          if (counts(statement.text)) counting.statements += 1;
          return client.query(statement);
        },
        on: client.on.bind(client),
        removeListener: client.removeListener.bind(client),
        release: (broken) => client.release(broken),
      };
    },
  };
  return counting;
}
