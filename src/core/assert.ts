// Assertions that stay enabled in production: a lease library with an inconsistent state must stop,
// because guessing could produce two holders.

/**
 * Throws if the code itself is wrong. For bad input from a caller, throw `InvalidArgumentError`
 * instead.
 */
export function assert(condition: unknown, rule: string): asserts condition {
  if (!condition) throw new Error(`Tenure broke its own rule: ${rule}. Please report this.`);
}

/** Ends a `switch` over a union, so that the compiler reports every missing variant. */
export function assertNever(value: never): never {
  throw new Error(`Tenure met a value it does not know: ${JSON.stringify(value)}`);
}
