// `tenure guard` as data, like the other commands in definitions.ts.

import type { CommandDefinition } from "./definitions.ts";

export const GUARD: CommandDefinition = {
  name: "guard",
  summary: "Protect tables, so that every write needs a current token; reset guards.",
  about: [
    "install puts a trigger on TABLE (PostgreSQL: with its partitions): from then on every write is refused unless its transaction was admitted with a current token of --resource, also from psql, an ORM or a forgotten code path. remove takes it away. check tells which tables are protected, by which resource, and whether the protection is intact: triggers enabled and unchanged, no partition without one, no admission left behind.",
    "reset makes the guard forget the highest token of RESOURCE. You need it once, when you move leases to etcd or ZooKeeper, whose tokens are lower than those of the other stores. After a reset the guard admits every token, also a late write of a former holder. Stop all holders of the old store first, wait for one ttl, reset, then start on the new store. It works on every guard with a database, server or file.",
    "Exit code 1: the table is not protected, or check found a protection that is not intact, or none at all; reset found no token, or another one than it had shown. A table that does not exist or is protected already: 2.",
  ],
  arguments: [
    { name: "ACTION", required: true, oneOf: ["install", "remove", "check", "reset"] },
    { name: "TABLE|RESOURCE", required: false },
  ],
  runs: "no",
  options: [
    {
      name: "database",
      value: "URL",
      summary:
        "The database of the table or the guard: postgres://user@host/app or sqlite:./app.db. For reset also redis://..., etcd://..., zookeeper://... or file:./guarded.json. Default: TENURE_DATABASE, where a URL with a password belongs.",
    },
    {
      name: "resource",
      value: "RESOURCE",
      summary: "For install: the resource whose holder may write to the table.",
    },
    {
      name: "guard",
      value: "NAME",
      summary:
        "The schema (PostgreSQL), table (SQLite), prefix (Redis) or ledger (file) that keeps the highest tokens, as the guard in the program has it. Default: the default of the guard, such as tenure_guard.",
    },
    { name: "yes", short: "y", summary: "For remove and reset: do not ask." },
  ],
  examples: [
    {
      line: "tenure guard install public.payment --resource payments --database postgres://db/app",
      does: "no write gets in without a current token any more",
    },
    {
      line: "tenure guard check --database sqlite:./app.db",
      does: "which tables are protected, and whether it holds",
    },
    {
      line: "tenure guard reset payments --database postgres://db/app",
      does: "after a move to etcd: the guard admits its tokens",
    },
  ],
  exits: ["no", "unavailable"],
};
