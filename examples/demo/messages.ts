// What the demo's processes agree on: the files they share, the timing of the lease, and the messages between the
// director (demo.ts) and its workers. Tokens travel as decimal digits, as on any wire.

import { join } from "node:path";
import type { Timing } from "../../src/core/timing.ts";

export const RESOURCE = "ledger";

/** Short, so that a takeover can be watched. Below 3 s the two bounds must be given: these suit one machine. */
export const TIMING: Pick<Timing, "ttlMs" | "clockErrorMs" | "roundTripMs"> = {
  ttlMs: 2_000,
  clockErrorMs: 20,
  roundTripMs: 300,
};

export const storeFile = (folder: string): string => join(folder, "tenure.db");
export const ledgerFile = (folder: string): string => join(folder, "ledger.db");

/** Switches the guard off, to show that the demo's verdict can fail. */
export const WITHOUT_GUARD = "TENURE_DEMO_WITHOUT_GUARD";

export type Order =
  /** Pass check(), then do not write before having been stopped and resumed. */
  | { readonly type: "stall"; readonly note: string }
  /** Which worker is stopped now, if any: whoever outlives the director ends it. */
  | { readonly type: "stopped"; readonly pid: number | undefined }
  /** Let go of everything and exit, without waiting for a successor. */
  | { readonly type: "leave" };

export type Report =
  | { readonly type: "ready"; readonly pid: number }
  | { readonly type: "granted"; readonly token: string }
  | { readonly type: "wrote"; readonly token: string }
  /** check() has said yes, and the write comes next. */
  | { readonly type: "armed"; readonly token: string }
  | { readonly type: "refused"; readonly token: string; readonly highest: string }
  | { readonly type: "accepted"; readonly token: string }
  /** What check() said after the late write: the code of its error, or undefined when it said yes. */
  | { readonly type: "checked"; readonly code: string | undefined; readonly reason: string }
  | { readonly type: "lost"; readonly reason: string }
  | { readonly type: "left"; readonly release: string; readonly successor: string | undefined }
  | { readonly type: "failed"; readonly reason: string };

/** One report with its sender and the director's time of arrival: one clock for everything that is measured. */
export interface Seen<R extends Report = Report> {
  readonly from: string;
  readonly atMs: number;
  readonly report: R;
}

export type ReportOf<Type extends Report["type"]> = Extract<Report, { type: Type }>;
