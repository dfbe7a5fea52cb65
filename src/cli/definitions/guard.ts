// The definition of `tenure guard`, which is too long for commands.ts.

import type { CommandDefinition } from "./definition.ts";

export const GUARD: CommandDefinition = {
  name: "guard",
  summary: "Protect tables, so that every write needs a current token; reset guards.",
  about: [
    "install adds a trigger to TABLE (in PostgreSQL also to its partitions). The trigger rejects every write whose transaction was not admitted with a current token of --resource, including writes from psql, an ORM or a forgotten code path. remove drops the trigger. check lists the protected tables with their resources and checks that the protection is intact: every trigger is enabled and unchanged, every partition has one, and no admission was left open.",
    "reset makes the guard forget the highest token of RESOURCE. You need it once, when you move leases to etcd or ZooKeeper, whose tokens are lower than those of the other stores. After a reset the guard admits every token, including a late write of a former holder. Stop all holders of the old store first, wait for one ttl, reset, then start on the new store. reset works on every guard that keeps its tokens in a database, a server or a file.",
    "The exit code is 1 if the table is not protected, if check found a broken protection or no protected table, or if reset found no token or a newer one than it had shown. It is 2 if the table does not exist or is already protected.",
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
        "The database of the table or the guard: postgres://user@host/app or sqlite:./app.db. For reset also redis://..., etcd://..., zookeeper://... or file:./guarded.json. Default: TENURE_DATABASE. Use the variable for a URL with a password.",
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
        "The schema (PostgreSQL), table (SQLite), prefix (Redis) or ledger (file) that keeps the highest tokens, as configured in your program. Default: the default of the guard, such as tenure_guard.",
    },
    { name: "yes", short: "y", summary: "For remove and reset: do not ask for confirmation." },
  ],
  examples: [
    {
      line: "tenure guard install public.payment --resource payments --database postgres://db/app",
      does: "rejects every write without a current token",
    },
    {
      line: "tenure guard check --database sqlite:./app.db",
      does: "lists the protected tables and checks their triggers",
    },
    {
      line: "tenure guard reset payments --database postgres://db/app",
      does: "after a move to etcd: lets the guard admit its lower tokens",
    },
  ],
  exits: ["no", "unavailable"],
};
