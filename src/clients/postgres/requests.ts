// Sends requests and never hangs: each has a limit, after which its answer counts as lost and its
// connection as broken. Conflicts that the server rolled back are retried within the limit, with
// the same attempt, so that one request gets one grant.

import type { Clock, Random } from "../../async/clock.ts";
import { getSharedLimits } from "../../async/limits.ts";
import { pause } from "../../async/waits.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { failure, isConflict, silence } from "./failures.ts";
import type { Call, PgLink, Row, SqlValue } from "./link.ts";

export interface RequestParts {
  readonly link: PgLink;
  readonly clock: Clock;
  readonly random: Random;
  readonly schema: string;
}

/** The wait before a conflict is retried is drawn up to this, and doubled every time. */
const CONFLICT_WAIT_MS = 5;
const CLOSE_LIMIT_MS = 1_000;

export class Requests {
  readonly #parts: RequestParts;
  readonly #statements = new Map<string, string>();
  readonly #inFlight = new Set<(error: Error) => void>();
  #closed: StoreUnavailableError | undefined;

  constructor(parts: RequestParts) {
    this.#parts = parts;
  }

  /**
   * Runs one statement; `{schema}` in it stands for the name. Without values it may be several
   * statements.
   */
  async run(text: string, values: readonly SqlValue[], limitMs: number): Promise<readonly Row[]> {
    const { clock, random } = this.#parts;
    const statement = this.#toStatement(text);
    const giveUpAt = clock.now() + limitMs;
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#runOnce(statement, values, giveUpAt - clock.now());
      } catch (error) {
        const waitMs = random.next() * CONFLICT_WAIT_MS * 2 ** tries;
        if (!isConflict((error as Error).cause) || clock.now() + waitMs >= giveUpAt) throw error;
        await pause(clock, waitMs);
      }
    }
  }

  /** The first row of a statement that always has one. */
  async row(text: string, values: readonly SqlValue[], limitMs: number): Promise<Row> {
    const [row] = await this.run(text, values, limitMs);
    if (row === undefined) throw new Error(`PostgreSQL returned no row: ${text}`);
    return row;
  }

  /** Requests in flight fail with this reason, and later ones too. */
  close(reason: StoreUnavailableError): void {
    this.#closed = reason;
    const lost = new StoreUnavailableError(reason.message, { applied: "unknown" });
    for (const reject of [...this.#inFlight]) reject(lost);
  }

  #toStatement(text: string): string {
    let statement = this.#statements.get(text);
    if (statement === undefined) {
      statement = text.replaceAll("{schema}", this.#parts.schema);
      this.#statements.set(text, statement);
    }
    return statement;
  }

  #runOnce(text: string, values: readonly SqlValue[], limitMs: number): Promise<readonly Row[]> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const { link, clock, schema } = this.#parts;
    const { address } = link;
    const call: Call = { text, values, sent: false, abandon: undefined };
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        limit.end();
        this.#inFlight.delete(giveUp);
      };
      const giveUp = (error: Error): void => {
        settle();
        // First, because abandoning the call rejects it too.
        reject(error);
        call.abandon?.();
      };
      const onLate = (): void => giveUp(this.#toLateError(limitMs, call.sent));
      const limit = getSharedLimits(clock).start(Math.max(0, limitMs), onLate);
      this.#inFlight.add(giveUp);
      link.query(call).then(
        (rows) => {
          settle();
          resolve(rows);
        },
        (error: unknown) => {
          settle();
          reject(failure(error, { address, schema, sent: call.sent }));
        },
      );
    });
  }

  #toLateError(limitMs: number, sent: boolean): StoreUnavailableError {
    const { address, isReached } = this.#parts.link;
    const applied = sent ? "unknown" : "no";
    const within = `within ${Math.round(limitMs)} ms`;
    if (isReached?.() === false)
      return new StoreUnavailableError(silence(address, within), { applied });
    const what = sent ? "gave no answer" : "had no free connection";
    return new StoreUnavailableError(`PostgreSQL at ${address} ${what} ${within}.`, { applied });
  }
}

/** A link that is cut off may never report that it is closed. */
export async function closeInTime(link: PgLink, clock: Clock): Promise<void> {
  const closed = link.close().catch(() => undefined);
  await new Promise<void>((resolve) => {
    const timer = clock.setTimer(resolve, CLOSE_LIMIT_MS);
    void closed.then(() => {
      timer.cancel();
      resolve();
    });
  });
}
