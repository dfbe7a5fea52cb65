// Simulates one store file that all programs of a machine share: a single write lock, commits that
// the others see, and change notifications from the kernel. A transaction takes one turn of its
// program, so nothing happens between its statements, except for a planned fault: a program can be
// stopped or killed while it holds the lock.

import type { Disk } from "../../../src/clients/sqlite/disk.ts";
import type { Connection, Statement } from "../../../src/clients/sqlite/driver.ts";
import { IDLE_CHECK_MS } from "../../../src/stores/sqlite/commits.ts";
import type { Callee } from "../../world/call.ts";
import type { Program } from "../../world/program.ts";
import type { Ending } from "../../world/trace.ts";
import type { Site } from "../model.ts";
import type { SimulatedDatabase } from "./database.ts";
import type { Truth } from "./truth.ts";

export interface SharedFileParts extends Pick<Site, "schedule" | "network" | "trace"> {
  readonly database: SimulatedDatabase;
  readonly truth: Truth;
  /**
   * Another process on the machine, such as a backup or a shell. While it is stopped it holds the
   * write lock; while it is down the disk is bad.
   */
  readonly other: Callee;
}

interface Watcher {
  readonly program: Program;
  readonly onReport: () => void;
}

export const FILE = "tenure.db";
/** The share of the kernel's notifications that get lost. The store then has to poll. */
const REPORTS_LOST = 0.05;

export class SharedFile {
  readonly #parts: SharedFileParts;
  readonly #beginning: Statement;
  readonly #committing: Statement;
  readonly #statements = new Map<string, Statement>();
  readonly #watchers = new Set<Watcher>();
  /** What happens to a program at its next commit. */
  readonly #planned = new Map<Program, () => void>();
  /** The program that was stopped in a transaction. It holds the lock until it resumes. */
  #owner: Program | undefined;
  /** When the flush of the last commit ends. The lock is held until then. */
  #flushedAt = 0;
  #commits = 0;
  /**
   * The statements of the open transaction, to be repeated if a planned fault stops the program at
   * the commit. Undefined if no fault is planned.
   */
  #log: (() => void)[] | undefined;

  constructor(parts: SharedFileParts) {
    this.#parts = parts;
    this.#beginning = parts.database.prepare("BEGIN IMMEDIATE");
    this.#committing = parts.database.prepare("COMMIT");
  }

  /** Runs `act` just before the program's next commit. `act` may stop or kill the program. */
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
        if (sql === "BEGIN IMMEDIATE") return makeStatement(() => this.#begin(program));
        if (sql === "COMMIT") return makeStatement(commit);
        // Counts the commits of other connections only.
        if (sql === "PRAGMA data_version")
          return { ...makeStatement(), get: () => ({ data_version: this.#commits - own }) };
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
    // The kernel releases the locks of a dead process.
    if (this.#owner?.isDead) this.#owner = undefined;
    if (this.#owner !== undefined || other.program.isStopped || schedule.now < this.#flushedAt) {
      throw BUSY;
    }
    this.#log = this.#planned.has(program) ? [] : undefined;
    this.#beginning.run();
  }

  /** Returns false if the transaction was not committed, or not yet. */
  #commit(program: Program): boolean {
    const act = this.#planned.get(program);
    if (act !== undefined && this.#log !== undefined) {
      this.#planned.delete(program);
      act();
    }
    if (program.isDead) {
      // The answer to a dead program is never delivered.
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

  /**
   * Rolls the statements back so that no program sees them, and repeats them when the program
   * resumes.
   */
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

  /**
   * A full disk rolls the transaction back. After a disk error the outcome is unknown, and both
   * outcomes occur.
   */
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
      trace.note(program.name, { kind: "reportLost", pollsWithinMs: IDLE_CHECK_MS });
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
    const { database, truth } = this.#parts;
    const real = database.prepare(sql);
    // If the statement frees a lease, its text tells which request it belongs to.
    const ending: Ending = sql.includes("attempt = ?") ? "withdrawn" : "released";
    const statement: Statement = {
      run: (...values) => {
        truth.expect(ending);
        this.#log?.push(() => {
          truth.expect(ending);
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

/** better-sqlite3 and node:sqlite both throw errors with such a code. */
class SqliteError extends Error {
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/** One object, because it is thrown very often. */
const BUSY = new SqliteError("SQLITE_BUSY");

function makeStatement(run: () => void = () => undefined): Statement {
  return {
    run: () => {
      run();
      return { changes: 0 };
    },
    get: () => undefined,
    all: () => [],
  };
}
