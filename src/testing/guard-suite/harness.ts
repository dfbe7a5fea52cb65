// What the author of a guard gives to the suite, and helpers for its tests. Each guard has its own
// form of guarded write; the harness adapts it to one form that appends a text to the resource.

import type { Guard, GuardOptions, TokenSource } from "../../guards/guard.ts";

/** A guard whose write has been adapted to the suite. */
export interface GuardInSuite extends Pick<Guard, "advance" | "highest"> {
  /**
   * One guarded write: appends the text to the texts of the source's resource. Without a source, it
   * uses the form that takes the lease from the async context. With `fail`, it writes and then
   * throws any error, before the commit if the resource has transactions.
   */
  write(
    source: TokenSource | undefined,
    text: string,
    options?: { readonly fail?: boolean | undefined },
  ): void | Promise<void>;
}

/** The data that guards protect, new for each test. */
export interface GuardHarness {
  /** Opens another independent guard on the same data, as another process would. */
  open(options?: GuardOptions): GuardInSuite | Promise<GuardInSuite>;
  /** The texts written under a resource, in the order of the resource itself. */
  written(resource: string): string[] | Promise<string[]>;
  /**
   * Discards the memory of the guards, and restarts the resource if it is a server. The suite opens
   * new guards afterwards. Leave it out if the guard keeps its tokens in the process.
   */
  readonly restart?: (() => void | Promise<void>) | undefined;
  /** Called after the test: removes the data and closes connections. */
  close(): void | Promise<void>;
}

/** A kind of guard, as given to guardSuite(). */
export interface GuardUnderTest {
  /** The name of the guard in test titles, such as "SQLite". */
  readonly name: string;
  /** Whether a failed write is rolled back together with its token. */
  readonly rollsBack: boolean;
  /** Called before each test. */
  create(): GuardHarness | Promise<GuardHarness>;
}

/** One running test. */
export interface GuardBench {
  readonly rollsBack: boolean;
  readonly restart: GuardHarness["restart"];
  open(options?: GuardOptions): Promise<GuardInSuite>;
  written(resource?: string): Promise<string[]>;
}

export type GuardTopic = Record<
  string,
  (bench: GuardBench, skip: (reason: string) => never) => Promise<void>
>;

export const RESOURCE = "ledger";

/** The bare facts of a lease. */
export function facts(token: bigint, resource: string = RESOURCE): TokenSource {
  return { resource, token };
}

/** Undefined if the guard admitted the write or advance, else the error. */
export async function catchFailure(act: () => unknown): Promise<Failure | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    return error as Failure;
  }
}

/** The fields of errors that the suite checks. */
export interface Failure {
  readonly code?: string;
  readonly resource?: string;
  readonly offered?: bigint;
  readonly highest?: bigint;
}
