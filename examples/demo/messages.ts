// What the processes of the demo share: the file names, the timing of the lease, and the messages
// between the main process and its workers. Tokens are sent as decimal digits, because JSON has no
// bigint.

import { join } from "node:path";
import type { Timing } from "../../src/core/timing.ts";

export const RESOURCE = "ledger";

/**
 * A short ttl makes takeovers visible. Below 3 s both bounds are required; these suit one machine.
 */
export const TIMING: Pick<Timing, "ttlMs" | "clockErrorMs" | "roundTripMs"> = {
  ttlMs: 2_000,
  clockErrorMs: 20,
  roundTripMs: 300,
};

export const storeFile = (folder: string): string => join(folder, "tenure.db");
export const ledgerFile = (folder: string): string => join(folder, "ledger.db");

/** The variable that switches the guard off, to show that the demo can fail. */
export const WITHOUT_GUARD = "TENURE_DEMO_WITHOUT_GUARD";

export type Order =
  /** Call check(), then write only after having been stopped and resumed. */
  | { readonly type: "stall"; readonly note: string }
  /** The worker that is stopped now, if any. If the main process dies, the others kill it. */
  | { readonly type: "stopped"; readonly pid: number | undefined }
  /** Release the lease and exit, without waiting for a successor. */
  | { readonly type: "leave" };

export type Report =
  | { readonly type: "ready"; readonly pid: number }
  | { readonly type: "granted"; readonly token: string }
  | { readonly type: "wrote"; readonly token: string }
  /** check() has succeeded, and the write comes next. */
  | { readonly type: "checked"; readonly token: string }
  | { readonly type: "rejected"; readonly token: string; readonly highest: string }
  | { readonly type: "accepted"; readonly token: string }
  /** The result of check() after the late write: the code of its error, or undefined. */
  | { readonly type: "checkedAgain"; readonly code: string | undefined; readonly reason: string }
  | { readonly type: "lost"; readonly reason: string }
  | { readonly type: "left"; readonly release: string; readonly successor: string | undefined }
  | { readonly type: "failed"; readonly reason: string };

/** A report with its sender and its time of arrival, on the clock of the main process. */
export interface Seen<R extends Report = Report> {
  readonly from: string;
  readonly atMs: number;
  readonly report: R;
}

export type ReportOf<Type extends Report["type"]> = Extract<Report, { type: Type }>;
