// A transaction of postgres.js whose connection has been closed, by the server's idle limit for instance. The library (3.4)
// writes to the missing socket when anything more is asked of it, its own commit and rollback included, and that ends the
// process with an uncaught TypeError. So nothing more is asked: our wrapper refuses the user's statements and never
// returns to the library. The caller has long been told by then.

type Work = (transaction: unknown) => unknown;
type Callable = ((...args: unknown[]) => unknown) & Record<PropertyKey, unknown>;

/** Like `sql.begin(options, work)`, and safe against what happens after the connection is closed. */
export function beginSafely(
  sql: { begin(...args: never[]): Promise<unknown> },
  options: string,
  work: Work,
): Promise<unknown> {
  const link = { isClosed: false };
  const begin = sql.begin.bind(sql) as (options: string, work: Work) => Promise<unknown>;
  // It rejects when the connection closes, whatever the work is doing.
  return begin(options, (transaction) => runUntilClosed(link, work, transaction)).catch(
    (error: unknown) => {
      link.isClosed = true;
      throw error;
    },
  );
}

interface LinkState {
  isClosed: boolean;
}

/** What the work comes to, unless the connection was closed meanwhile: then nothing, ever. */
async function runUntilClosed(link: LinkState, work: Work, transaction: unknown): Promise<unknown> {
  try {
    return await work(rejectAfterClose(link, transaction as Callable));
  } finally {
    if (link.isClosed) await new Promise(() => undefined);
  }
}

/** The same transaction, which refuses once the connection is closed. */
function rejectAfterClose(link: LinkState, transaction: Callable): unknown {
  const refuse = (): void => {
    if (link.isClosed) throw new Error("The connection of this transaction was closed.");
  };
  return new Proxy(transaction, {
    apply: (target, self, args) => {
      refuse();
      return Reflect.apply(target, self, args);
    },
    get: (target, key) => {
      const value = target[key];
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        refuse();
        const passed = key === "savepoint" ? args.map((arg) => wrapSavepoint(link, arg)) : args;
        return Reflect.apply(value, target, passed);
      };
    },
  });
}

/** A savepoint has a transaction object and a rollback of its own. */
function wrapSavepoint(link: LinkState, arg: unknown): unknown {
  if (typeof arg !== "function") return arg;
  return (transaction: unknown) => runUntilClosed(link, arg as Work, transaction);
}
