// One store file, as all programs of a machine share it: one write lock, commits that others see, reports of the kernel. A
// transaction takes one turn of its program, so nothing comes between its statements, except what is planned for it: a
// program can be stopped or killed with the lock in its hand.

import type { Disk } from "../../../src/clients/sqlite/disk.ts";
import type { Connection, Statement } from "../../../src/clients/sqlite/driver.ts";
import { IDLE_LOOK_MS } from "../../../src/stores/sqlite/waker.ts";
import type { Callee } from "../../world/call.ts";
import type { Program } from "../../world/program.ts";
import type { Ending } from "../../world/trace.ts";
import type { Site } from "../model.ts";
import type { SimulatedDatabase } from "./database.ts";
import type { Truth } from "./truth.ts";

export interface SharedFileParts extends Pick<Site, "schedule" | "network" | "trace"> {
  readonly database: SimulatedDatabase;
  readonly truth: Truth;
  /** Somebody else on the machine: stopped, it sits on the write lock (a backup, a shell); down means a bad disk. */
  readonly other: Callee;
}

interface Watcher {
  readonly program: Program;
  readonly onReport: () => void;
}

export const FILE = "tenure.db";
/** How often the kernel's report of a write gets lost; the store has to look by itself then. */
const REPORTS_LOST = 0.05;

export class SharedFile {
  readonly #parts: SharedFileParts;
  readonly #beginning: Statement;
  readonly #committing: Statement;
  readonly #statements = new Map<string, Statement>();
  readonly #watchers = new Set<Watcher>();
  /** What is to happen to a program at its next commit. */
  readonly #planned = new Map<Program, () => void>();
  /** Who was stopped in a transaction, and has the lock until it goes on. */
  #owner: Program | undefined;
  /** The flush of the last commit goes on until then, and the lock with it. */
  #flushedAt = 0;
  #commits = 0;
  /** The statements of the open transaction, where it may have to be done again. */
  #log: (() => void)[] | undefined;

  constructor(parts: SharedFileParts) {
    this.#parts = parts;
    this.#beginning = parts.database.prepare("BEGIN IMMEDIATE");
    this.#committing = parts.database.prepare("COMMIT");
  }

  /** Just before the program's next commit `act` comes to pass, which may stop or kill it. */
  beforeCommit(program: Program, act: () => void): void {
    this.#planned.set(program, act);
  }

  disk(program: Program): Disk {
    return {
      realPathOf: (file) => file,
      identityOf: () => "the same",
      watch: (_file, onReport) => {
        const watcher = { program, onReport };
        this.#watchers.add(watcher);
        return { close: () => this.#watchers.delete(watcher) };
      },
    };
  }

  connect(program: Program): Connection {
    let own = 0;
    const commit = (): void => {
      if (this.#commit(program)) own += 1;
    };
    return {
      prepare: (sql) => {
        if (sql === "BEGIN IMMEDIATE") return doing(() => this.#begin(program));
        if (sql === "COMMIT") return doing(commit);
        // What others committed: a connection's own commits do not count.
        if (sql === "PRAGMA data_version")
          return { ...doing(), get: () => ({ data_version: this.#commits - own }) };
        return this.#statement(sql);
      },
      exec: (sql) => {
        if (sql !== "ROLLBACK") throw new Error(`The model of SQLite does not do ${sql}.`);
        this.#rollBack();
      },
      close: () => undefined,
    };
  }

  #begin(program: Program): void {
    const { schedule, other } = this.#parts;
    // The kernel lets go of the locks of a process that is gone.
    if (this.#owner?.isDead) this.#owner = undefined;
    if (this.#owner !== undefined || other.program.isStopped || schedule.now < this.#flushedAt) {
      throw BUSY;
    }
    this.#log = this.#planned.has(program) ? [] : undefined;
    this.#beginning.run();
  }

  /** False when it has not come to pass, or not yet. */
  #commit(program: Program): boolean {
    const act = this.#planned.get(program);
    if (act !== undefined && this.#log !== undefined) {
      this.#planned.delete(program);
      act();
    }
    if (program.isDead) {
      // Nobody hears it: what a dead program is answered does not arrive.
      this.#rollBack();
      throw new SqliteError("SQLITE_IOERR");
    }
    if (program.isStopped) {
      this.#postpone(program);
      return false;
    }
    if (this.#parts.other.isDown) this.#fail();
    this.#committed();
    return true;
  }

  /** The statements are undone, so that nobody sees them, and done again when the program goes on. */
  #postpone(program: Program): void {
    const log = this.#log ?? [];
    this.#rollBack();
    this.#owner = program;
    program.send(() => {
      this.#owner = undefined;
      this.#beginning.run();
      for (const again of log) again();
      this.#committed();
    });
  }

  /** A full disk undoes the transaction; after an error of the disk nobody knows, and both happen. */
  #fail(): void {
    const { other, trace } = this.#parts;
    const fate = other.program.chance.pick(["full", "lost", "written"]);
    trace.count(`disk ${fate}`);
    if (fate === "written") this.#committed();
    else this.#rollBack();
    throw new SqliteError(fate === "full" ? "SQLITE_FULL" : "SQLITE_IOERR_WRITE");
  }

  #committed(): void {
    const { schedule, network, truth } = this.#parts;
    this.#committing.run();
    truth.committed();
    this.#log = undefined;
    this.#commits += 1;
    this.#flushedAt = schedule.now + network.drawLocalDelayMs();
    for (const { program, onReport } of this.#watchers) this.#report(program, onReport);
  }

  #report(program: Program, onReport: () => void): void {
    const { schedule, network, trace, other } = this.#parts;
    if (program.isDead) return;
    if (other.program.chance.isTrue(REPORTS_LOST)) {
      trace.count("report lost");
      trace.note(program.name, { kind: "reportLost", pollsWithinMs: IDLE_LOOK_MS });
    } else schedule.after(network.drawLocalDelayMs(), () => program.receive(onReport));
  }

  #rollBack(): void {
    const { database, truth } = this.#parts;
    database.exec("ROLLBACK");
    truth.rolledBack();
    this.#log = undefined;
  }

  #statement(sql: string): Statement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const { database, truth, schedule } = this.#parts;
    const real = database.prepare(sql);
    const ending: Ending = sql.includes("attempt = ?") ? "withdrawn" : "released";
    const statement: Statement = {
      run: (...values) => {
        const { now } = schedule;
        truth.expect(ending, now);
        this.#log?.push(() => {
          truth.expect(ending, now);
          real.run(...values);
        });
        return real.run(...values);
      },
      get: (...values) => {
        this.#log?.push(() => real.get(...values));
        return real.get(...values);
      },
      all: (...values) => real.all(...values),
    };
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** As both libraries throw them, by the code. */
class SqliteError extends Error {
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/** Thrown very often. */
const BUSY = new SqliteError("SQLITE_BUSY");

function doing(run: () => void = () => undefined): Statement {
  return {
    run: () => {
      run();
      return { changes: 0 };
    },
    get: () => undefined,
    all: () => [],
  };
}
