// Converts SQLite's errors: what they mean for the request, and what the user can do about them.

import { StoreUnavailableError, StoreUnusableError, type TenureError } from "../../core/errors.ts";
import { SQLITE, sqliteCode } from "./driver.ts";

/** `committing`: the error came from COMMIT, so the transaction may or may not be on the disk. */
export function failure(error: unknown, file: string, committing = false): TenureError | Error {
  switch (sqliteCode(error)) {
    case SQLITE.busy:
    case SQLITE.locked:
      return new StoreUnavailableError(`${file} is locked by another process.`, {
        applied: "no",
        cause: error,
      });
    case SQLITE.full:
      return new StoreUnavailableError(
        `The disk of ${file} is full. Nothing was changed; free some space.`,
        {
          applied: "no",
          cause: error,
        },
      );
    case SQLITE.ioerr:
      return new StoreUnavailableError(`Reading or writing ${file} failed. Check its disk.`, {
        applied: committing ? "unknown" : "no",
        cause: error,
      });
    case SQLITE.readonly:
      return new StoreUnusableError(
        `${file} cannot be written. Check its permissions and that its disk is not read-only.`,
        {
          cause: error,
        },
      );
    case SQLITE.cantopen:
      return new StoreUnusableError(
        `${file} cannot be opened. Check the path and its permissions.`,
        { cause: error },
      );
    case SQLITE.corrupt:
    case SQLITE.notadb:
      return new StoreUnusableError(
        `${file} is damaged or not a SQLite file. Nothing was changed. Move it away, or name another file.`,
        { cause: error },
      );
    case undefined:
      // What node:sqlite throws for an integer above 2^53, which Tenure never writes.
      if ((error as { code?: unknown } | undefined)?.code === "ERR_OUT_OF_RANGE") {
        return new StoreUnusableError(
          `${file} contains a number that Tenure did not write. Nothing was changed. Move the file away, or name another one.`,
          { cause: error },
        );
      }
      return error instanceof Error ? error : new Error(String(error));
    default:
      return new StoreUnusableError(
        `SQLite refused a request on ${file}: ${(error as Error).message}.`,
        {
          cause: error,
        },
      );
  }
}

export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === SQLITE.busy || code === SQLITE.locked;
}
