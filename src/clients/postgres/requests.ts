// Sends requests and never hangs: each has a limit, after which its answer counts as lost and its connection as broken.
// Conflicts that the server undid are tried again inside the limit, with the same attempt, so a grant stays one grant.

import type { Clock, Random } from "../../async/clock.ts";
import { getSharedLimits } from "../../async/limits.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { failure, isConflict, silence } from "./failures.ts";
import type { Call, PgLink, Row, SqlValue } from "./link.ts";

export interface RequestParts {
  readonly link: PgLink;
  readonly clock: Clock;
  readonly random: Random;
  readonly schema: string;
}

/** The wait before a conflict is tried again, drawn up to this and doubled every time. */
const CONFLICT_WAIT_MS = 5;

export class Requests {
  readonly #parts: RequestParts;
  readonly #statements = new Map<string, string>();
  readonly #underWay = new Set<(error: Error) => void>();
  #closed: StoreUnavailableError | undefined;

  constructor(parts: RequestParts) {
    this.#parts = parts;
  }

  /** One statement; `{schema}` in it stands for the name. Without values it may be several statements. */
  async run(text: string, values: readonly SqlValue[], limitMs: number): Promise<readonly Row[]> {
    const { clock, random } = this.#parts;
    const statement = this.#named(text);
    const giveUpAt = clock.now() + limitMs;
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#once(statement, values, giveUpAt - clock.now());
      } catch (error) {
        const waitMs = random.next() * CONFLICT_WAIT_MS * 2 ** tries;
        if (!isConflict((error as Error).cause) || clock.now() + waitMs >= giveUpAt) throw error;
        await new Promise<void>((again) => clock.setTimer(again, waitMs, { keepAlive: true }));
      }
    }
  }

  /** The first row of a statement that has exactly one. */
  async row(text: string, values: readonly SqlValue[], limitMs: number): Promise<Row> {
    const [row] = await this.run(text, values, limitMs);
    if (row === undefined) throw new Error(`PostgreSQL answered no row: ${text}`);
    return row;
  }

  /** Requests under way are answered with this; later ones too. */
  close(reason: StoreUnavailableError): void {
    this.#closed = reason;
    const lost = new StoreUnavailableError(reason.message, { applied: "unknown" });
    for (const reject of [...this.#underWay]) reject(lost);
  }

  #named(text: string): string {
    const known = this.#statements.get(text);
    if (known !== undefined) return known;
    const statement = text.replaceAll("{schema}", this.#parts.schema);
    this.#statements.set(text, statement);
    return statement;
  }

  #once(text: string, values: readonly SqlValue[], limitMs: number): Promise<readonly Row[]> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const { link, clock, schema } = this.#parts;
    const { address } = link;
    const call: Call = { text, values, sent: false, abandon: undefined };
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        limit.end();
        this.#underWay.delete(giveUp);
      };
      const giveUp = (error: Error): void => {
        settle();
        // First the verdict: abandoning the call rejects it too.
        reject(error);
        call.abandon?.();
      };
      const late = (): void => giveUp(this.#tooLate(limitMs, call.sent));
      const limit = getSharedLimits(clock).start(Math.max(0, limitMs), late);
      this.#underWay.add(giveUp);
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

  #tooLate(limitMs: number, sent: boolean): StoreUnavailableError {
    const { address, isReached } = this.#parts.link;
    const applied = sent ? "unknown" : "no";
    const within = `within ${Math.round(limitMs)} ms`;
    if (isReached?.() === false)
      return new StoreUnavailableError(silence(address, within), { applied });
    const what = sent ? "gave no answer" : "had no free connection";
    return new StoreUnavailableError(`PostgreSQL at ${address} ${what} ${within}.`, { applied });
  }
}
