// Where a server comes from: from the environment (TENURE_TEST_REDIS=redis://... and so on) when it names one,
// else from this machine's own engine, installed if need be. A given server is used as it is.
import { until } from "./ask.ts";
import { CannotRunError, type Engine, type EngineName, MissingEngineError } from "./engine.ts";
import { installEngine } from "./install.ts";
import type { RunningServer } from "./server.ts";

/** Options common to all engines. Any option at all asks for a server of our own, started with it. */
export interface OwnOptions {
  /** A server that the test may stop, kill and pause. */
  readonly own?: true | undefined;
}

const GIVEN_MAX_MS = 5_000;
const known = new Map<EngineName, Promise<Engine>>();

export function variableOf(name: EngineName): string {
  return `TENURE_TEST_${name.toUpperCase()}`;
}

/** The server that the environment names, or undefined. With options, none will do: CannotRunError. */
export async function givenServer(
  name: EngineName,
  options: object,
  answersAt: (url: string, limitMs: number) => Promise<boolean>,
): Promise<RunningServer | undefined> {
  const variable = variableOf(name);
  const url = process.env[variable];
  if (url === undefined || url === "") return undefined;
  if (Object.keys(options).length > 0) throw new CannotRunError(refusal(variable));
  const answers = (limitMs = 1_000): Promise<boolean> => answersAt(url, limitMs);
  await until(`${variable}=${withoutPassword(url)} answers`, answers, GIVEN_MAX_MS);
  const { hostname: host, port } = new URL(url);
  const refuse = (): never => {
    throw new CannotRunError(refusal(variable));
  };
  return {
    ...{ name, url, host, port: Number(port), folder: "", pid: Number.NaN, readyMs: 0 },
    ...{ givenBy: variable, answers, stop: refuse, kill: refuse, pause: refuse, resume: refuse },
    ...{ start: refuse, cpuSeconds: () => Number.NaN, log: () => "" },
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

function refusal(variable: string): string {
  return `${variable} names a server, and this test needs one of its own to stop or to set up`;
}

function withoutPassword(url: string): string {
  return url.replace(/:[^:@/]*@/, ":***@");
}
