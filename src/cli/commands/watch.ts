// `tenure watch` redraws a table on a terminal, and prints lines of JSON otherwise.

import type { Clock } from "../../async/clock.ts";
import { systemParts } from "../../runtime/system.ts";
import type { LeaseView } from "../../stores/contract.ts";
import { openStore } from "../backends/open-store.ts";
import { heldFor, LEASE_HEAD, leaseObject, leaseRow } from "../output/lease-view.ts";
import type { Output } from "../output/output.ts";
import { table } from "../output/text.ts";
import type { Command } from "../parsing/arguments.ts";
import { SignalRelay } from "../signal-relay.ts";

const REDRAW_MS = 500;
/** The alternate screen of the terminal. Leaving it restores the previous content. */
const ENTER_SCREEN = "\u001B[?1049h\u001B[?25l";
const LEAVE_SCREEN = "\u001B[?25h\u001B[?1049l";

export const watchCommand: Command = async ({ positionals, options }, output) => {
  const relay = new SignalRelay();
  const { tenure } = await openStore(options);
  const { clock } = systemParts();
  const screen = output.onTerminal && !output.json ? new Screen(output, clock) : undefined;
  try {
    const changes = tenure.watch(positionals[0] ?? "", { signal: relay.ended });
    for await (const lease of changes) {
      if (screen === undefined) output.line(leaseObject(lease));
      else screen.change(lease);
    }
  } catch (error) {
    if (!relay.ended.aborted) throw error;
  } finally {
    screen?.close();
    await tenure.close();
  }
  return relay.exitCode;
};

/** Draws the table over the whole screen of the terminal. */
class Screen {
  readonly #output: Output;
  readonly #clock: Clock;
  readonly #leases = new Map<string, { readonly lease: LeaseView; readonly seenAt: number }>();
  #timer: { cancel(): void };

  constructor(output: Output, clock: Clock) {
    this.#output = output;
    this.#clock = clock;
    process.stdout.write(ENTER_SCREEN);
    this.#timer = this.#draw();
  }

  change(lease: LeaseView): void {
    if (lease.holder === undefined) this.#leases.delete(lease.resource);
    else this.#leases.set(lease.resource, { lease, seenAt: this.#clock.now() });
    this.#timer.cancel();
    this.#timer = this.#draw();
  }

  close(): void {
    this.#timer.cancel();
    process.stdout.write(LEAVE_SCREEN);
  }

  /** Draws the table and sets a timer for the next time. */
  #draw(): { cancel(): void } {
    // Some terminals report 0 for an unknown size.
    const columns = process.stdout.columns || 80;
    const rows = process.stdout.rows || 24;
    const all = [...this.#leases.values()]
      .map(({ lease, seenAt }) => ({ lease, row: this.#row(lease, seenAt) }))
      .sort((a, b) => (a.lease.resource < b.lease.resource ? -1 : 1));
    const shown = all.slice(0, Math.max(1, rows - 3)).map(({ row }) => row);
    const head = LEASE_HEAD.filter((name) => name !== "EXPIRES IN");
    const [title = "", ...body] = table(head, shown).map((line) => line.slice(0, columns));
    const rest = all.length - shown.length;
    const text = this.#output.text([
      `${all.length} held${rest > 0 ? `, ${rest} not shown` : ""}. Press Ctrl-C to exit.`,
      { style: "bold", text: title },
      ...body,
    ]);
    process.stdout.write(`\u001B[H\u001B[J${text}`);
    return this.#clock.setTimer(
      () => {
        this.#timer = this.#draw();
      },
      REDRAW_MS,
      { keepAlive: true },
    );
  }

  /** A watch reports changes but not renewals, so the time left is unknown here. */
  #row(lease: LeaseView, seenAt: number): string[] {
    const [resource = "", holder = "", token = "", , , value = ""] = leaseRow(lease);
    const seenForMs = this.#clock.now() - seenAt;
    const heldForMs = lease.holder?.heldForMs;
    const held = heldFor(heldForMs === undefined ? undefined : heldForMs + seenForMs);
    return [resource, holder, token, held, value];
  }
}
