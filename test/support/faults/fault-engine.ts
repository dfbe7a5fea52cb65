// What the fault tests need to know about an engine. Only this entry differs between the files in
// test/faults: the faults and the expectations are the same for all engines.
import { type TestContext, test } from "vitest";
import { CannotRunError } from "../../servers/engine.ts";
import type { RunningServer } from "../../servers/server.ts";
import { useServer } from "../../servers/use-server.ts";
import type { Child } from "../process/child.ts";
import { ACTS, Arena } from "./fault-arena.ts";
import type { Expectation } from "./history-checks.ts";

/** Where contenders meet: a server or a file. */
export interface Place extends AsyncDisposable {
  readonly url: string;
}

export interface FaultEngine<S extends Place = RunningServer> {
  readonly name: string;
  /**
   * Starts a server for the faults of holders and links. It need not wait for the disk, which may
   * be busy.
   */
  readonly start: () => Promise<S>;
  /** Starts a server that keeps what it has acknowledged after kill -9. @default start */
  readonly startDurable?: (() => Promise<RunningServer>) | undefined;
  /** Starts the engine with its default settings, if these do not keep everything after kill -9. */
  readonly startForgetful?: (() => Promise<RunningServer>) | undefined;
  /** The client libraries to test; by default the store chooses one. */
  readonly libraries?: readonly string[] | undefined;
  /** How long after the ttl the store may still keep the lease of a holder that is gone. */
  readonly lagMs: number;
  readonly timing: FaultTiming;
  readonly counted: CountedEngine<S>;
}

/** How requests are counted. */
interface CountedEngine<S extends Place> {
  readonly start: () => Promise<S>;
  /** Requests of one waiter from one of its renewals to the next. */
  readonly perRenewal: number;
  /**
   * The number of requests so far, counted at the server if there is one, otherwise by the
   * processes of the trial.
   */
  requests(server: S, processes: readonly Child[]): Promise<number>;
}

/** What does not depend on where contenders meet. */
export type AnyEngine = Pick<FaultEngine, "timing" | "lagMs" | "name">;

export interface FaultTiming {
  readonly ttlMs: number;
  readonly renewEveryMs: number;
  readonly clockErrorMs: number;
  readonly roundTripMs: number;
}

/**
 * Bounds for two busy cores, and still a short trial. The holder stops 400 ms before the store
 * expires its lease.
 */
export const usualTiming: FaultTiming = {
  ttlMs: 2_000,
  renewEveryMs: 500,
  clockErrorMs: 50,
  roundTripMs: 350,
};

/**
 * What a busy machine may add to any wait. A tighter bound would prove more, but could fail without
 * a bug.
 */
const SLACK_MS = 4_000;

/** A waiter holds within this time after the holder's last renewal (L1). */
export function takeoverMaxMs({ timing, lagMs }: AnyEngine): number {
  return timing.ttlMs + lagMs + SLACK_MS;
}

/** What every history must contain: two terms, and a holder that acted for some time. */
export function buildExpectation(engine: AnyEngine, more: Partial<Expectation> = {}): Expectation {
  return { grantsMin: 2, actsMin: ACTS + 20, livelyWithinMs: 2 * takeoverMaxMs(engine), ...more };
}

type FaultBody<S> = (arena: Arena, server: S) => Promise<void>;

export interface SharedTests<S extends Place = Place> {
  /**
   * Declares a trial that shares its server with others, so that it may only break processes and
   * links.
   */
  shared(name: string, body: FaultBody<S>): void;
}

export interface FaultTests<S extends Place = RunningServer> extends SharedTests<S> {
  /** Declares a trial with its own server, which it may stop. */
  own(name: string, start: () => Promise<S>, body: FaultBody<S>): void;
}

const TEST_MAX_MS = 90_000;

/** Call once, at the top of a file. */
export function declareFaultTests<S extends Place>(engine: FaultEngine<S>): FaultTests<S> {
  const server = useServer(engine.start);
  return {
    shared: (name, body) => {
      test.concurrent(
        name,
        async () => {
          await using arena = new Arena(engine);
          await body(arena, server());
        },
        TEST_MAX_MS,
      );
    },
    own: (name, start, body) => {
      test.concurrent(
        name,
        async (context) => {
          await using arena = new Arena(engine);
          await body(arena, await arena.server(start).catch(skipIfNotOurs(context)));
        },
        TEST_MAX_MS,
      );
    },
  };
}

/** Skips a test on a server that the environment names (TENURE_TEST_REDIS): we may not stop it. */
function skipIfNotOurs(context: TestContext): (error: unknown) => never {
  return (error) => {
    if (error instanceof CannotRunError) context.skip(error.message);
    throw error;
  };
}
