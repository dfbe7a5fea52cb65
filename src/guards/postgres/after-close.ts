// Works around a defect of postgres.js (3.4): after the connection of a transaction was closed, for
// example by the server's idle limit, the library writes to the missing socket on every further
// statement, including its own commit and rollback, and that ends the process with an uncaught
// TypeError. Our wrapper therefore rejects further statements of the user and never returns to the
// library. The caller has already received the error by then.

type Work = (transaction: unknown) => unknown;
type Callable = ((...args: unknown[]) => unknown) & Record<PropertyKey, unknown>;

/** Like `sql.begin(options, work)`, but safe after the connection was closed. */
export function beginSafely(
  sql: { begin(...args: never[]): Promise<unknown> },
  options: string,
  work: Work,
): Promise<unknown> {
  const link = { isClosed: false };
  const begin = sql.begin.bind(sql) as (options: string, work: Work) => Promise<unknown>;
  // begin() rejects as soon as the connection closes, even while the work is running.
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

/** Settles like the work. If the connection was closed in the meantime, it never settles. */
async function runUntilClosed(link: LinkState, work: Work, transaction: unknown): Promise<unknown> {
  try {
    return await work(rejectAfterClose(link, transaction as Callable));
  } finally {
    if (link.isClosed) await new Promise(() => undefined);
  }
}

/** The same transaction, but its methods throw after the connection was closed. */
function rejectAfterClose(link: LinkState, transaction: Callable): unknown {
  const throwIfClosed = (): void => {
    if (link.isClosed) throw new Error("The connection of this transaction was closed.");
  };
  return new Proxy(transaction, {
    apply: (target, self, args) => {
      throwIfClosed();
      return Reflect.apply(target, self, args);
    },
    get: (target, key) => {
      const value = target[key];
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        throwIfClosed();
        const passed = key === "savepoint" ? args.map((arg) => wrapSavepoint(link, arg)) : args;
        return Reflect.apply(value, target, passed);
      };
    },
  });
}

/**
 * A savepoint has its own transaction object and its own rollback, so its callback is wrapped, too.
 */
function wrapSavepoint(link: LinkState, arg: unknown): unknown {
  if (typeof arg !== "function") return arg;
  return (transaction: unknown) => runUntilClosed(link, arg as Work, transaction);
}
