// Connects leases to guards whose tokens outlive the process (a file, a database). A lease can
// register a listener, and such a guard calls it whenever it is used with that lease. The holder
// uses this to warn about leases of a memory store, which other processes do not see. Holder and
// guards share this module because neither may import the other.

const listeners = new WeakMap<object, () => void>();

/** Calls `listener` whenever `source` is used with a guard whose tokens outlive the process. */
export function onLastingGuard(source: object, listener: () => void): void {
  listeners.set(source, listener);
}

/** Called by a guard whose tokens outlive the process, before it writes under `source`. */
export function enterLastingGuard(source: object): void {
  listeners.get(source)?.();
}
