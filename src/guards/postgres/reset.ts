// Deletes the highest token of one resource, for a move to a store whose tokens are lower. The
// trigger that forbids deletion is disabled and enabled again in the same transaction. ALTER TABLE
// needs the owner of the table, and its lock blocks every other writer until the transaction ends,
// so no other session ever writes to the table without its trigger.

import { GuardUnavailableError, InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { checkToken, formatToken } from "../../core/token.ts";
import { checkLimit } from "../guard.ts";
import { type PostgresTarget, toConnection } from "./connection.ts";
import { explainFailure } from "./failures.ts";
import { GATE } from "./functions.ts";
import { checkSchema, DEFAULT_SCHEMA, toSqlText } from "./sql.ts";

/** Options of resetHighest(). */
export interface ResetOptions {
  /** The highest token, as highest() returned it. If it has changed since, nothing is reset. */
  readonly highest: bigint;
  /** The PostgreSQL schema of the guard, as given to postgresGuard(). @default "tenure_guard" */
  readonly prefix?: string | undefined;
  /**
   * How long to wait for open transactions that use the guard, in milliseconds. Too small: a short
   * transaction makes the reset fail. Too large: new terms of all resources of this guard may wait
   * that long. @default 10000
   */
  readonly waitMs?: number | undefined;
}

const RESET_OPTIONS: OptionNames<ResetOptions> = { highest: true, prefix: true, waitMs: true };
const WAIT_MS = 10_000;

/**
 * Deletes the highest token of a resource, so that the guard admits the next token, whatever its
 * value. It then also admits late writes of every former holder. Call it only when no process is
 * left that holds, or held, a lease of the old store. Only the owner of the guard may call it.
 * Resolves with false if the highest is another token, and with true if none is left.
 */
export async function resetHighest(
  target: PostgresTarget,
  resource: string,
  options: ResetOptions,
): Promise<boolean> {
  const connection = toConnection(target);
  checkOptionNames("resetHighest()", options, RESET_OPTIONS);
  const schema = checkSchema(options?.prefix ?? DEFAULT_SCHEMA);
  const highest = checkToken(options?.highest);
  const waitMs = checkLimit("waitMs", options.waitMs ?? WAIT_MS);
  const text = resetSql({ schema, resource: toSqlText(checkResource(resource)), highest, waitMs });
  try {
    const [row] = await connection.run(text);
    return row?.gone === "true";
  } catch (error) {
    throw explain(error, { resource, schema, waitMs });
  }
}

interface Reset {
  readonly schema: string;
  /** An SQL expression without a dollar sign, because it is used inside $$ quotes. */
  readonly resource: string;
  readonly highest: bigint;
  readonly waitMs: number;
}

/**
 * One message, which the server runs as one transaction. The gate is locked first, as in admit().
 * Another order of locks could deadlock with an advance.
 */
function resetSql({ schema, resource, highest, waitMs }: Reset): string {
  return `
SELECT set_config('lock_timeout', '${waitMs}', true);
SELECT pg_advisory_xact_lock(${GATE(resource)});
DO $$
DECLARE
  keeper "char" := (SELECT t.tgenabled FROM pg_catalog.pg_trigger t
    WHERE t.tgrelid = '"{schema}".highest'::regclass AND t.tgname = 'keep_highest');
BEGIN
  IF keeper IS NOT NULL THEN
    ALTER TABLE "{schema}".highest DISABLE TRIGGER keep_highest;
  END IF;
  DELETE FROM "{schema}".highest WHERE resource = ${resource} AND token = ${formatToken(highest)};
  IF keeper = 'A' THEN
    ALTER TABLE "{schema}".highest ENABLE ALWAYS TRIGGER keep_highest;
  ELSIF keeper IS NOT NULL THEN
    ALTER TABLE "{schema}".highest ENABLE TRIGGER keep_highest;
  END IF;
END $$;
SELECT (NOT EXISTS (SELECT FROM "{schema}".highest WHERE resource = ${resource}))::text AS gone`.replaceAll(
    "{schema}",
    schema,
  );
}

const REASONS: Readonly<Record<string, string>> = {
  "42501": "only the owner of the guard's tables, or a superuser, may reset it",
  "42P01": "the guard is not in this database. Check the `prefix`",
  "3F000": "the guard is not in this database. Check the `prefix`",
};

function explain(
  error: unknown,
  { resource, schema, waitMs }: { resource: string; schema: string; waitMs: number },
): unknown {
  const { code, message } = error as Error & { readonly code?: string };
  const reason = REASONS[code ?? ""];
  if (reason !== undefined) {
    return new InvalidArgumentError(
      `The highest token of "${resource}" was not reset: ${reason}. PostgreSQL says: ${message}.`,
      { resource, cause: error },
    );
  }
  if (code === "55P03" || code === "40P01") {
    const detail = `transactions that use it stayed open for ${waitMs} ms. Nothing was reset. Stop the processes that write, and try again`;
    return GuardUnavailableError.from({ resource, applied: "no", detail, cause: error });
  }
  return explainFailure(error, { resource, schema, step: "commit" });
}
