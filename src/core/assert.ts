// Assertions that stay on in production: a lease library that has lost track of its own state must stop, not guess.

/** Throws when the code itself is wrong. Bad input from a caller is an `InvalidArgumentError` instead. */
export function assert(condition: unknown, rule: string): asserts condition {
  if (!condition) throw new Error(`Tenure broke its own rule: ${rule}. Please report this.`);
}

/** Ends a `switch` over a union, so that the compiler names every variant somebody forgot. */
export function assertNever(value: never): never {
  throw new Error(`Tenure met a value it does not know: ${JSON.stringify(value)}`);
}
