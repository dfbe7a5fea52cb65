// Notes in the trace what SQLite committed. Triggers in the model's database report every row that
// changes, whichever statement changed it. At commit these reports become events of the trace; a
// rollback discards them.

import type { HostClocks } from "../../world/host-clocks.ts";
import type { Ending, Trace } from "../../world/trace.ts";
import type { SimulatedDatabase } from "./database.ts";

const TRIGGERS = `
  CREATE TEMP TRIGGER report_new_lease AFTER INSERT ON lease BEGIN
    SELECT report_granted(NEW.resource, CAST(NEW.token AS TEXT), NEW.session, NEW.attempt);
  END;
  CREATE TEMP TRIGGER report_lease AFTER UPDATE OF token ON lease BEGIN
    SELECT report_granted(NEW.resource, CAST(NEW.token AS TEXT), NEW.session, NEW.attempt);
  END;
  CREATE TEMP TRIGGER report_free AFTER UPDATE OF session ON lease WHEN NEW.session IS NULL BEGIN
    SELECT report_freed(NEW.resource, CAST(NEW.token AS TEXT));
  END;
  CREATE TEMP TRIGGER report_revocation AFTER INSERT ON revocation BEGIN
    SELECT report_revoked();
  END;
  CREATE TEMP TRIGGER report_new_session AFTER INSERT ON session BEGIN
    SELECT report_kept(NEW.id, NEW.boot_id, NEW.expires_ms);
  END;
  CREATE TEMP TRIGGER report_session AFTER UPDATE OF expires_ms ON session BEGIN
    SELECT report_kept(NEW.id, NEW.boot_id, NEW.expires_ms);
  END;
  CREATE TEMP TRIGGER report_end AFTER DELETE ON session BEGIN SELECT report_ended(OLD.id); END;
`;

interface SessionRow {
  readonly bootId: string;
  readonly expiresMs: number;
}

interface LeaseRow {
  readonly token: bigint;
  readonly session: string;
}

interface Freed {
  readonly resource: string;
  readonly token: bigint;
  how: Ending;
}

export class Truth {
  readonly #trace: Trace;
  readonly #host: HostClocks;
  readonly #sessions = new Map<string, SessionRow>();
  readonly #leases = new Map<string, LeaseRow>();
  /** The reports of the open transaction. */
  #reports: (() => void)[] = [];
  #newestFreed: Freed | undefined;
  #ending: Ending = "released";

  constructor(database: SimulatedDatabase, trace: Trace, host: HostClocks) {
    this.#trace = trace;
    this.#host = host;
    const on = (name: string, report: (...values: never[]) => void): void =>
      database.function(name, { varargs: true }, (...values) => {
        report(...(values as never[]));
        return null;
      });
    on("report_granted", (resource: string, token: string, session: string, attempt: string) =>
      this.#later(() => this.#granted(resource, BigInt(token), session, attempt)),
    );
    on("report_freed", (resource: string, token: string) => {
      const freed = { resource, token: BigInt(token), how: this.#ending };
      this.#newestFreed = freed;
      this.#later(() => this.#freed(freed));
    });
    // A revocation is a release that the holder did not ask for, earlier in the same transaction.
    on("report_revoked", () => {
      if (this.#newestFreed !== undefined) this.#newestFreed.how = "revoked";
    });
    on("report_kept", (id: string, bootId: string, expiresMs: number) =>
      this.#later(() => this.#kept(id, { bootId, expiresMs })),
    );
    on("report_ended", (id: string) => this.#later(() => this.#ended(id)));
    database.exec(TRIGGERS);
  }

  /** Announces the next statement: if it frees leases, it does so in this way. */
  expect(ending: Ending): void {
    this.#ending = ending;
  }

  committed(): void {
    const reports = this.#reports;
    this.#reports = [];
    for (const report of reports) report();
  }

  rolledBack(): void {
    this.#reports = [];
  }

  /** Defers the report to the commit. */
  #later(report: () => void): void {
    this.#reports.push(report);
  }

  #granted(resource: string, token: bigint, session: string, attempt: string): void {
    this.#leases.set(resource, { token, session });
    this.#trace.note("store", { kind: "storeGranted", resource, token, session, attempt });
  }

  #freed({ resource, ...freed }: Freed): void {
    const lease = this.#leases.get(resource);
    this.#leases.delete(resource);
    if (lease === undefined) return;
    this.#trace.note("store", { kind: "storeFreed", resource, ...freed });
  }

  #kept(session: string, row: SessionRow): void {
    this.#sessions.set(session, row);
    this.#trace.note("store", { kind: "storeKept", session, until: this.#end(row) });
  }

  #ended(session: string): void {
    if (this.#lives(session)) {
      for (const [resource, lease] of this.#leases) {
        if (lease.session !== session) continue;
        this.#leases.delete(resource);
        const { token } = lease;
        const how = "sessionEnded";
        this.#trace.note("store", { kind: "storeFreed", resource, token, how });
      }
    }
    this.#sessions.delete(session);
  }

  #lives(session: string): boolean {
    const row = this.#sessions.get(session);
    const { bootId, now } = this.#host.hostClock;
    return row !== undefined && row.bootId === bootId && row.expiresMs > now();
  }

  /**
   * The store reads its clock in steps, so the session ends at the first step at or after its end.
   */
  #end({ expiresMs }: SessionRow): number {
    const { stepMs } = this.#host.hostClock;
    return this.#host.trueInstantOfBoot(Math.ceil(expiresMs / stepMs) * stepMs);
  }
}
