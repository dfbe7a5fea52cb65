// The watches at one server. A watch on a node fires once. A watch on everything below a node fires
// until its connection ends.

import type { Connection } from "./connection.ts";

export class Watches {
  readonly #once = new Map<string, Set<Connection>>();
  readonly #below = new Map<string, Set<Connection>>();

  add(path: string, connection: Connection, isBelow: boolean): void {
    const watches = isBelow ? this.#below : this.#once;
    const watchers = watches.get(path);
    if (watchers === undefined) watches.set(path, new Set([connection]));
    else watchers.add(connection);
  }

  notify(path: string, event: () => Buffer): void {
    const once = this.#once.get(path);
    if (once === undefined && this.#below.size === 0) return;
    // A connection that watches in both ways is notified once.
    const notified = new Set<Connection>(once);
    this.#once.delete(path);
    for (const [above, watchers] of this.#below)
      if (path === above || path.startsWith(`${above}/`))
        for (const watcher of watchers) notified.add(watcher);
    for (const connection of notified) if (connection.isOpen) connection.send(event());
  }

  clear(): void {
    this.#once.clear();
    this.#below.clear();
  }
}
