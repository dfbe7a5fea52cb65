// Provides one server to all tests of a file or of a describe block, and stops it after the last
// test. If the server cannot run, each test is skipped with the reason, which the reporter prints.
import { afterAll, beforeAll, beforeEach, inject } from "vitest";
import { CannotRunError } from "./engine.ts";
import { rememberMissing } from "./given.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** For each missing engine, why global-setup.ts could not install it. */
    missingEngines: Record<string, string>;
  }
}

/** Long enough for an install: global-setup.ts may have skipped it in a focused run. */
const START_MAX_MS = 600_000;
const END_MAX_MS = 30_000;

/**
 * `const redis = useServer(startRedis, { appendonly: true })`, then `redis()` inside a test. Call
 * it at the top of a file or of a describe block.
 *
 * With options, the file starts its own server, which its tests may stop. Without options, it uses
 * the server that TENURE_TEST_REDIS names, or else the one that all files of the run share. Names
 * must then be unique among all files. On a shared PostgreSQL, the file has its own database.
 */
export function useServer<O, T extends AsyncDisposable>(
  start: (options?: O) => Promise<T>,
  options?: O,
): () => T {
  let server: T | undefined;
  let reason: string | undefined;
  beforeAll(async () => {
    rememberMissing(inject("missingEngines") ?? {});
    try {
      server = await (options === undefined ? start() : start(options));
    } catch (error) {
      if (!(error instanceof CannotRunError)) throw error;
      reason = error.message;
    }
  }, START_MAX_MS);
  beforeEach((context) => {
    if (reason !== undefined) context.skip(reason);
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
  }, END_MAX_MS);
  return () => {
    if (server === undefined)
      throw new Error("The server runs only during tests. Call this inside a test.");
    return server;
  };
}
