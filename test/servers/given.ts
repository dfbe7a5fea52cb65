// Where a server comes from. The environment may name one (TENURE_TEST_REDIS=redis://... and so on), which is used as
// it is. Otherwise a test without options gets the server that the test run shares, and a test with options starts its
// own. Engines that are missing on this machine are installed first.
import { until } from "./ask.ts";
import { CannotRunError, type Engine, type EngineName, MissingEngineError } from "./engine.ts";
import { installEngine } from "./install.ts";
import type { RunningServer } from "./server.ts";
import { sharedUrl } from "./shared.ts";

/** Options common to all engines. Any option at all asks for a server of our own, started with it. */
export interface OwnOptions {
  /** A server that the test may stop, kill and pause. */
  readonly own?: true | undefined;
}

const GIVEN_MAX_MS = 2_000;
const known = new Map<EngineName, Promise<Engine>>();

export function variableOf(name: EngineName): string {
  return `TENURE_TEST_${name.toUpperCase()}`;
}

/**
 * A server that this process did not start: the one that the environment names, or else the one that the test run shares.
 * Undefined when this process has to start its own, which it always does for a test with options. A server that the
 * environment names cannot have those options: CannotRunError.
 */
export async function givenServer(
  name: EngineName,
  options: object,
  answersAt: (url: string, limitMs: number) => Promise<boolean>,
): Promise<RunningServer | undefined> {
  const variable = variableOf(name);
  const named = process.env[variable];
  const needsOwn = Object.keys(options).length > 0;
  if (!named) {
    const url = needsOwn ? undefined : await sharedUrl(name);
    if (url === undefined) return undefined;
    const refusal = `The whole test run shares this ${name}. A test that stops it asks for { own: true }.`;
    return remoteServer({ name, url, givenBy: undefined, refusal, answersAt });
  }
  const refusal = `${variable} names a server, and this test needs one of its own to stop or to set up`;
  if (needsOwn) throw new CannotRunError(refusal);
  const server = remoteServer({ name, url: named, givenBy: variable, refusal, answersAt });
  const what = `${variable}=${withoutPassword(named)} answers`;
  await until(what, () => server.answers(), GIVEN_MAX_MS);
  return server;
}

interface Remote {
  readonly name: EngineName;
  readonly url: string;
  readonly givenBy: string | undefined;
  /** Why it cannot be stopped, killed or paused. */
  readonly refusal: string;
  readonly answersAt: (url: string, limitMs: number) => Promise<boolean>;
}

function remoteServer({ name, url, givenBy, refusal, answersAt }: Remote): RunningServer {
  const { hostname: host, port } = new URL(url);
  const refuse = async (): Promise<never> => {
    throw new CannotRunError(refusal);
  };
  return {
    name,
    url,
    host,
    port: Number(port),
    givenBy,
    folder: "",
    pid: Number.NaN,
    readyMs: 0,
    answers: (limitMs = 1_000) => answersAt(url, limitMs),
    stop: refuse,
    kill: refuse,
    pause: refuse,
    resume: refuse,
    start: refuse,
    cpuSeconds: () => Number.NaN,
    log: () => "",
    [Symbol.asyncDispose]: async () => undefined,
  };
}

/** The engine, found or installed; MissingEngineError when neither works. Asked once per process. */
export function needEngine(name: EngineName): Promise<Engine> {
  const before = known.get(name);
  if (before !== undefined) return before;
  const engine = installEngine(name);
  known.set(name, engine);
  return engine;
}

/** Takes over what another process found out, so that a machine without network tries only once. */
export function rememberMissing(reasons: Readonly<Record<string, string>>): void {
  for (const [name, reason] of Object.entries(reasons)) {
    const missing = Promise.reject(new MissingEngineError(name as EngineName, reason));
    missing.catch(() => undefined);
    known.set(name as EngineName, missing);
  }
}

function withoutPassword(url: string): string {
  return url.replace(/:[^:@/]*@/, ":***@");
}
