// What the fault suite needs to know of an engine. One such entry per engine is all that differs between the files in
// test/faults: the faults and what is expected of them are the same for all.
import { type TestContext, test } from "vitest";
import { CannotRunError } from "../../servers/engine.ts";
import type { RunningServer } from "../../servers/server.ts";
import { useServer } from "../../servers/use-server.ts";
import type { Child } from "../process/child.ts";
import { ACTS, Arena } from "./fault-arena.ts";
import type { Expectation } from "./history-checks.ts";

/** Where contenders meet: a server, or a file. */
export interface Place extends AsyncDisposable {
  readonly url: string;
}

export interface FaultEngine<S extends Place = RunningServer> {
  readonly name: string;
  /** A server for the faults of holders and links. It need not wait for the disk, which others may keep busy. */
  readonly start: () => Promise<S>;
  /** One that keeps what it has acknowledged over a kill -9. @default start */
  readonly startDurable?: (() => Promise<RunningServer>) | undefined;
  /** The same engine as it comes, where it does not keep everything then. */
  readonly startForgetful?: (() => Promise<RunningServer>) | undefined;
  /** The client libraries to try; without them, the store's own choice. */
  readonly libraries?: readonly string[] | undefined;
  /** How long behind the ttl the store may still keep the lease of a holder that is gone. */
  readonly lagMs: number;
  readonly timing: FaultTiming;
  readonly counted: CountedEngine<S>;
}

/** How to count requests. */
interface CountedEngine<S extends Place> {
  readonly start: () => Promise<S>;
  /** Requests of one who waits, from one of its renewals to the next. */
  readonly perRenewal: number;
  /** So many requests so far, at the server where there is one; else as the processes of the trial have counted them. */
  requests(server: S, processes: readonly Child[]): Promise<number>;
}

/** What is the same wherever contenders meet. */
export type AnyEngine = Pick<FaultEngine, "timing" | "lagMs" | "name">;

export interface FaultTiming {
  readonly ttlMs: number;
  readonly renewEveryMs: number;
  readonly clockErrorMs: number;
  readonly roundTripMs: number;
}

/** Bounds for two busy cores, and still a short trial. The holder stops 400 ms before the store's expiry. */
export const usualTiming: FaultTiming = {
  ttlMs: 2_000,
  renewEveryMs: 500,
  clockErrorMs: 50,
  roundTripMs: 350,
};

/** What a machine that does a lot else may add to any wait here. It proves less than a tight bound, and never lies. */
const SLACK_MS = 4_000;

/** Within this time of the holder's last renewal a waiter holds (L1). */
export function takeoverMaxMs({ timing, lagMs }: AnyEngine): number {
  return timing.ttlMs + lagMs + SLACK_MS;
}

/** What every history must have: two terms, and a holder that acted for some time. */
export function usually(engine: AnyEngine, more: Partial<Expectation> = {}): Expectation {
  return { grantsMin: 2, actsMin: ACTS + 20, livelyWithinMs: 2 * takeoverMaxMs(engine), ...more };
}

type FaultBody<S> = (arena: Arena, server: S) => Promise<void>;

export interface SharedTests<S extends Place = Place> {
  /** A trial that shares its server with others, so it only breaks processes and links. */
  shared(name: string, body: FaultBody<S>): void;
}

export interface FaultTests<S extends Place = RunningServer> extends SharedTests<S> {
  /** A trial with a server of its own, which it may stop. */
  own(name: string, start: () => Promise<S>, body: FaultBody<S>): void;
}

const TEST_MAX_MS = 90_000;

/** Call at the top of a file, once. */
export function faultTests<S extends Place>(engine: FaultEngine<S>): FaultTests<S> {
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
          await body(arena, await arena.server(start).catch(skipUnlessOurs(context)));
        },
        TEST_MAX_MS,
      );
    },
  };
}

/** A given server (TENURE_TEST_REDIS) is not ours to stop. */
function skipUnlessOurs(context: TestContext): (error: unknown) => never {
  return (error) => {
    if (error instanceof CannotRunError) context.skip(error.message);
    throw error;
  };
}
