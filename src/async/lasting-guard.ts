// Connects leases to guards whose tokens outlive the process (a file, a database). A lease can
// register a listener, and such a guard calls it before its first write under that lease. Holder
// and guards share this module because neither may import the other.

const listeners = new WeakMap<object, () => void>();

/** Calls `listener` whenever `source` is used with a guard whose tokens outlive the process. */
export function onLastingGuard(source: object, listener: () => void): void {
  listeners.set(source, listener);
}

/** Called by a guard whose tokens outlive the process, before it writes under `source`. */
export function enterLastingGuard(source: object): void {
  listeners.get(source)?.();
}
