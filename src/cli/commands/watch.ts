// `tenure watch`: a table that redraws itself on a terminal, lines of JSON anywhere else.

import type { Clock } from "../../async/clock.ts";
import { signalNumber } from "../../runtime/process-end.ts";
import { systemParts } from "../../runtime/system.ts";
import type { LeaseView } from "../../stores/contract.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { heldFor, LEASE_HEAD, leaseObject, leaseRow } from "../lease-view.ts";
import { openStore } from "../open-store.ts";
import { Relay } from "../relay.ts";
import { table } from "../text.ts";
import type { Voice } from "../voice.ts";

const REDRAW_MS = 500;

export const watchCommand: Command = async ({ positionals, options }, voice) => {
  const relay = new Relay();
  const { tenure } = await openStore(options);
  const { clock } = systemParts();
  const screen = voice.onTerminal && !voice.json ? new Screen(voice, clock) : undefined;
  try {
    const changes = tenure.watch(positionals[0] ?? "", { signal: relay.ended });
    for await (const lease of changes) {
      if (screen === undefined) voice.line(leaseObject(lease));
      else screen.change(lease);
    }
  } catch (error) {
    if (!relay.ended.aborted) throw error;
  } finally {
    screen?.close();
    await tenure.close();
  }
  return EXIT.signal + (signalNumber(relay.endedBy ?? "") ?? 0);
};

/** The table, drawn over the whole screen. */
class Screen {
  readonly #voice: Voice;
  readonly #clock: Clock;
  readonly #leases = new Map<string, { readonly lease: LeaseView; readonly seenAt: number }>();
  #timer: { cancel(): void };

  constructor(voice: Voice, clock: Clock) {
    this.#voice = voice;
    this.#clock = clock;
    voice.enterScreen();
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
    this.#voice.leaveScreen();
  }

  /** Draws, and again after a while. */
  #draw(): { cancel(): void } {
    // Some terminals say 0 for a size that they do not know.
    const columns = process.stdout.columns || 80;
    const rows = process.stdout.rows || 24;
    const all = [...this.#leases.values()]
      .map(({ lease, seenAt }) => ({ lease, row: this.#row(lease, seenAt) }))
      .sort((a, b) => (a.lease.resource < b.lease.resource ? -1 : 1));
    const shown = all.slice(0, Math.max(1, rows - 3)).map(({ row }) => row);
    const head = LEASE_HEAD.filter((name) => name !== "EXPIRES IN");
    const [title = "", ...body] = table(head, shown).map((line) => line.slice(0, columns));
    const rest = all.length - shown.length;
    this.#voice.drawScreen([
      `${all.length} held${rest > 0 ? `, ${rest} not shown` : ""}. Ctrl-C ends.`,
      { style: "bold", text: title },
      ...body,
    ]);
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
