// Translates the errors of PostgreSQL and of its client libraries: what each means for the request,
// and which setting fixes it. An error that the server sent means that nothing was applied, because
// the statement was rolled back. An error of the connection says nothing about a request that was
// sent.

import {
  isTenureError,
  StoreUnavailableError,
  StoreUnusableError,
  type TenureError,
} from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";

export interface Circumstance {
  readonly address: string;
  readonly schema: string;
  /** Whether the request may have reached the server. */
  readonly sent: boolean;
}

type Reading = (where: Circumstance, cause: Error) => TenureError;

const unusable =
  (text: (where: Circumstance, cause: Error) => string): Reading =>
  (where, cause) =>
    new StoreUnusableError(text(where, cause), { cause });

const unavailable =
  (applied: "no" | "unknown", text: (where: Circumstance, cause: Error) => string): Reading =>
  (where, cause) =>
    new StoreUnavailableError(text(where, cause), { applied, cause });

const wrongLogin = unusable(
  ({ address }, cause) =>
    `PostgreSQL at ${address} refused the login: ${cause.message}. Check user, password and sslmode in the URL, and pg_hba.conf.`,
);
const missing = unusable(
  ({ schema }, cause) =>
    `The schema "${schema}" is missing or incomplete: ${cause.message}. Set createSchema: true, or run migrationSql().`,
);
const interrupted = unavailable(
  "unknown",
  ({ address }, cause) => `PostgreSQL at ${address} ended the connection: ${cause.message}.`,
);
const badTls = unusable(
  ({ address }, cause) =>
    `TLS with PostgreSQL at ${address} failed: ${cause.message}. Check sslmode and sslrootcert in the URL, or the ssl setting of your client.`,
);
const unreachable = unavailable(
  "no",
  ({ address }, cause) =>
    `PostgreSQL at ${address} cannot be reached: ${cause.message || codeOf(cause)}. Check host and port, and that the server runs.`,
);

const silent = unavailable("no", ({ address }) => silence(address, "in time"));

/** The address accepts connections and does not answer as PostgreSQL would. */
export function silence(address: string, within: string): string {
  return `PostgreSQL at ${address} did not answer ${within}. Check host and port, the firewall, and that the server there is PostgreSQL.`;
}

/** By SQLSTATE or its first two characters, and by the codes of Node and of postgres.js. */
const READINGS: Readonly<Record<string, Reading>> = {
  "28": wrongLogin,
  "3D000": unusable(
    ({ address }, cause) =>
      `PostgreSQL at ${address}: ${cause.message}. Check the database in the URL.`,
  ),
  "3F000": missing,
  "42P01": missing,
  "42883": missing,
  "42703": missing,
  "42501": unusable(
    ({ schema }, cause) =>
      `PostgreSQL denied a permission: ${cause.message}. Let an owner run migrationSql({ prefix: "${schema}", role }), ` +
      "which makes the schema and grants what the role needs.",
  ),
  "25006": unavailable(
    "no",
    ({ address }) =>
      `PostgreSQL at ${address} is read-only: a standby, or default_transaction_read_only is on. Connect to the primary.`,
  ),
  "40": unavailable(
    "no",
    (_where, cause) => `PostgreSQL kept refusing a request for conflicts: ${cause.message}.`,
  ),
  "55P03": unavailable(
    "no",
    (_where, cause) => `A row stayed locked for the whole time limit: ${cause.message}.`,
  ),
  "53": unavailable(
    "no",
    ({ address }, cause) =>
      `PostgreSQL at ${address} is out of resources: ${cause.message}. Check max_connections, disk and memory.`,
  ),
  "57014": unavailable(
    "no",
    (_where, cause) => `PostgreSQL cancelled a request: ${cause.message}. Check statement_timeout.`,
  ),
  "57P03": unavailable(
    "no",
    ({ address }, cause) => `PostgreSQL at ${address} is not ready: ${cause.message}.`,
  ),
  "57": interrupted,
  "08": interrupted,
  "40003": interrupted,
  ECONNREFUSED: unreachable,
  ENOTFOUND: unreachable,
  EAI_AGAIN: unreachable,
  EHOSTUNREACH: unreachable,
  ENETUNREACH: unreachable,
  CONNECT_TIMEOUT: silent,
  DEPTH_ZERO_SELF_SIGNED_CERT: badTls,
  SELF_SIGNED_CERT_IN_CHAIN: badTls,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: badTls,
  CERT_HAS_EXPIRED: badTls,
  ERR_TLS_CERT_ALTNAME_INVALID: badTls,
};

export function failure(error: unknown, where: Circumstance): Error {
  if (isTenureError(error)) return error;
  const cause = redacted(error);
  const code = codeOf(cause);
  const reading = READINGS[code] ?? (isSqlState(cause) ? READINGS[code.slice(0, 2)] : undefined);
  if (reading !== undefined) return reading(where, cause);
  // The message of a pool of pg whose connection could not be opened, as opposed to a busy pool.
  if (/due to connection timeout/i.test(cause.message)) return silent(where, cause);
  if (/does not support SSL|SSL connection|tls/i.test(cause.message)) return badTls(where, cause);
  if (isSqlState(cause)) {
    return new StoreUnusableError(`PostgreSQL refused a request: ${cause.message} (${code}).`, {
      cause,
    });
  }
  const message = `The connection to PostgreSQL at ${where.address} failed: ${cause.message}.`;
  return new StoreUnavailableError(message, { applied: where.sent ? "unknown" : "no", cause });
}

/** The server rolled the transaction back because of others. A retry may succeed. */
export function isConflict(error: unknown): boolean {
  const code = codeOf(error);
  return code === "40001" || code === "40P01";
}

function codeOf(error: unknown): string {
  const { code, errors } = (error ?? {}) as { code?: unknown; errors?: unknown[] };
  if (typeof code === "string") return code;
  // Node tried several addresses of one name.
  return Array.isArray(errors) && errors.length > 0 ? codeOf(errors[0]) : "";
}

/** In both libraries, an error that the server sent has a severity. */
function isSqlState(error: Error): boolean {
  return "severity" in error && /^[0-9A-Z]{5}$/.test(codeOf(error));
}
