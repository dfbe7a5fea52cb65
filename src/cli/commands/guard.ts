// `tenure guard` protects tables of PostgreSQL and SQLite, so that every write needs a current
// token. It also removes and checks the protection. `reset` makes a guard of any kind forget its
// highest token.

import type { ProtectedTable } from "../../guards/postgres/index.ts";
import { openTokens } from "../backends/guard-tokens.ts";
import {
  type GuardedDatabase,
  type GuardTokens,
  openDatabase,
} from "../backends/guarded-database.ts";
import { UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";
import { checkCanConfirm, confirm } from "../output/confirm.ts";
import { boldTable, type Output } from "../output/output.ts";
import type { Command } from "../parsing/arguments.ts";

export const guardCommand: Command = async ({ positionals, options }, output) => {
  const [action = "", name] = positionals;
  const resource = options.text("resource");
  if (action !== "check" && name === undefined) {
    const what = action === "reset" ? "RESOURCE" : "TABLE";
    throw new UsageError(`\`tenure guard ${action}\` needs ${what}. See tenure guard --help.`);
  }
  if ((action === "install") !== (resource !== undefined)) {
    throw new UsageError(
      action === "install"
        ? "`tenure guard install` needs --resource: the resource whose holder may write to the table."
        : `\`tenure guard ${action}\` takes no --resource.`,
    );
  }
  if (action === "remove") checkCanConfirm(options, output, "remove the protection");
  if (action === "reset") {
    checkCanConfirm(options, output, "reset the guard");
    const tokens = await openTokens(options);
    try {
      return await reset(tokens, name ?? "", output, options.has("yes"));
    } finally {
      await tokens.close();
    }
  }
  const database = await openDatabase(options);
  try {
    if (action === "check") return await check(database, name, output);
    if (action === "remove") return await remove(database, name ?? "", output, options.has("yes"));
    return await install(database, name ?? "", resource ?? "", output);
  } finally {
    await database.close();
  }
};

async function install(
  database: GuardedDatabase,
  name: string,
  resource: string,
  output: Output,
): Promise<number> {
  await database.protect(name, resource);
  const [installed] = await database.tables(name);
  const shown = installed?.table ?? name;
  output.answer(
    () => `Protected ${shown}: it now accepts writes only from the holder of ${resource}.`,
    () => ({ protected: true, ...toObject(installed), table: shown, resource }),
  );
  return EXIT.ok;
}

async function remove(
  database: GuardedDatabase,
  name: string,
  output: Output,
  isConfirmed: boolean,
): Promise<number> {
  const [found] = await database.tables(name);
  if (found === undefined) {
    output.answer(
      () => `${name} is not protected; nothing was removed.`,
      () => ({ table: name, removed: false }),
    );
    return EXIT.no;
  }
  const question = `${found.table} accepts writes only from the holder of ${found.resource}. Without the protection, late writes of a former holder are accepted. Remove it?`;
  if (!isConfirmed && !(await confirm(question))) {
    output.note("nothing was removed.", {});
    return EXIT.no;
  }
  await database.unprotect(name, found.guard);
  output.answer(
    () =>
      `Removed the protection of ${found.table}: late writes of a former holder are now accepted.`,
    () => ({ table: found.table, resource: found.resource, removed: true }),
  );
  return EXIT.ok;
}

async function reset(
  tokens: GuardTokens,
  resource: string,
  output: Output,
  isConfirmed: boolean,
): Promise<number> {
  const highest = await tokens.highest(resource);
  if (highest === undefined) {
    output.answer(
      () => `No token has been seen for ${resource}; nothing was reset.`,
      () => ({ resource, reset: false }),
    );
    return EXIT.no;
  }
  const question = `The guard of ${resource} has seen token ${highest} and rejects every lower one. After a reset it admits every token, including a late write of a former holder. Have all holders of the old store been stopped for at least one ttl? Reset it?`;
  if (!isConfirmed && !(await confirm(question))) {
    output.note("nothing was reset.", {});
    return EXIT.no;
  }
  // Conditional on the token: a newer one, seen while we asked, belongs to an active holder.
  const isReset = await tokens.reset(resource, highest);
  output.answer(
    () =>
      isReset
        ? `Reset the guard of ${resource}: it has forgotten token ${highest} and admits every token, including a late write of a former holder.`
        : `${resource} is in use: the guard has seen a newer token than ${highest} in the meantime. Nothing was reset.`,
    () => ({ resource, highest, reset: isReset }),
  );
  return isReset ? EXIT.ok : EXIT.no;
}

async function check(
  database: GuardedDatabase,
  name: string | undefined,
  output: Output,
): Promise<number> {
  const found = await database.tables(name);
  output.answer(
    () => {
      if (found.length === 0)
        return name === undefined ? "No table is protected." : `${name} is not protected.`;
      const rows = found.map((each) => [
        each.table,
        each.resource,
        each.guard,
        each.fault === undefined ? "intact" : `BROKEN: ${each.fault}`,
      ]);
      return boldTable(["TABLE", "RESOURCE", "GUARD", "PROTECTION"], rows);
    },
    () => found.map(toObject),
  );
  const isFine = found.length > 0 && found.every((each) => each.fault === undefined);
  return isFine ? EXIT.ok : EXIT.no;
}

function toObject(found: ProtectedTable | undefined): object {
  if (found === undefined) return {};
  const { table: name, resource, guard, fault } = found;
  return { table: name, resource, guard, intact: fault === undefined, ...(fault ? { fault } : {}) };
}
