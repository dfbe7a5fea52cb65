// What the guard suite needs to know about a guard, and small helpers that every topic uses. The guarded write of each
// guard has its own form; the harness brings it into one: append a text to what the resource keeps.

import type { Guard, GuardOptions, TokenSource } from "../../guards/guard.ts";

/** A guard whose own write has been brought into the suite's form. */
export interface GuardInSuite extends Pick<Guard, "advance" | "highest"> {
  /**
   * One guarded write: appends the text to what is kept for the source's resource. Without a source: by the form that
   * takes the lease from the async context. With `fail`, the write is done and then fails with any error, before it is
   * committed where the resource has transactions.
   */
  write(
    source: TokenSource | undefined,
    text: string,
    options?: { readonly fail?: boolean | undefined },
  ): void | Promise<void>;
}

/** One resource behind guards, fresh for one test. */
export interface GuardHarness {
  /** Opens a further, independent guard on the same data, as another process would. */
  open(options?: GuardOptions): GuardInSuite | Promise<GuardInSuite>;
  /** The texts written under a resource, in the resource's own order: read from it, not from what the guards said. */
  written(resource: string): string[] | Promise<string[]>;
  /** Ends everything the guards keep in memory, and the resource too where it is a server. Guards are opened anew after it. */
  readonly restart?: (() => void | Promise<void>) | undefined;
  close(): void | Promise<void>;
}

export interface GuardUnderTest {
  readonly name: string;
  /** Whether a write that fails is undone, and its token with it. */
  readonly rollsBack: boolean;
  create(): GuardHarness | Promise<GuardHarness>;
}

/** One running test. */
export class GuardBench {
  readonly harness: GuardHarness;
  readonly rollsBack: boolean;

  constructor(harness: GuardHarness, rollsBack: boolean) {
    this.harness = harness;
    this.rollsBack = rollsBack;
  }

  async open(options?: GuardOptions): Promise<GuardInSuite> {
    return this.harness.open(options);
  }

  async written(resource: string = RESOURCE): Promise<string[]> {
    return this.harness.written(resource);
  }
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

/** What a guarded write or an advance ended with: undefined when it was admitted, else what it threw or rejected with. */
export async function failureOf(act: () => unknown): Promise<Failure | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    return error as Failure;
  }
}

/** The fields of our errors that the suite looks at. */
export interface Failure {
  readonly code?: string;
  readonly resource?: string;
  readonly offered?: bigint;
  readonly highest?: bigint;
}
