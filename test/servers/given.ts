// Decides which server a test gets. The environment may name one (TENURE_TEST_REDIS=redis://... and
// so on); it is used unchanged. Otherwise a test without options gets the server that the whole
// test run shares, and a test with options starts its own. Engines that are missing on this machine
// are installed first.
import { until } from "./ask.ts";
import { CannotRunError, type Engine, type EngineName, MissingEngineError } from "./engine.ts";
import { installEngine } from "./install.ts";
import type { RunningServer } from "./server.ts";
import { sharedUrl } from "./shared.ts";

/** Options of all engines. A test that sets any option gets its own server, started with it. */
export interface OwnOptions {
  /** The test may stop, kill and pause the server. */
  readonly own?: true | undefined;
}

const GIVEN_MAX_MS = 2_000;
const known = new Map<EngineName, Promise<Engine>>();

export function toVariable(name: EngineName): string {
  return `TENURE_TEST_${name.toUpperCase()}`;
}

/**
 * Finds a server that this process does not have to start: the one that the environment names, or
 * else the one that the test run shares. Returns undefined if this process has to start its own,
 * which is always the case for a test with options. Throws CannotRunError if the environment names
 * a server and the test has options, because they cannot be applied to that server.
 */
export async function findGivenServer(
  name: EngineName,
  options: object,
  answersAt: (url: string, limitMs: number) => Promise<boolean>,
): Promise<RunningServer | undefined> {
  const variable = toVariable(name);
  const named = process.env[variable];
  const hasOptions = Object.keys(options).length > 0;
  if (!named) {
    const url = hasOptions ? undefined : await sharedUrl(name);
    if (url === undefined) return undefined;
    const refusal = `The whole test run shares this ${name}. A test that stops a server has to set { own: true }.`;
    return remoteServer({ name, url, givenBy: undefined, refusal, answersAt });
  }
  const refusal = `${variable} names a server, and this test needs one of its own to stop or to set up`;
  if (hasOptions) throw new CannotRunError(refusal);
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

/**
 * The engine, which is installed if necessary. Throws MissingEngineError if that fails. The result
 * is cached for this process.
 */
export function needEngine(name: EngineName): Promise<Engine> {
  const before = known.get(name);
  if (before !== undefined) return before;
  const engine = installEngine(name);
  known.set(name, engine);
  return engine;
}

/**
 * Stores which engines another process could not install. A machine without a network then tries
 * only once.
 */
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
