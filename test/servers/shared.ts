// Shares one server per engine among all files of a test run. The main process of the run listens
// on a port. A test file that needs an engine without special options asks there, and the first
// request starts the server. Files are separated by prefix, root or, on PostgreSQL, database. The
// watchdog ends these servers together with the main process.
import { type AddressInfo, createServer, type Server } from "node:net";
import { ask } from "./ask.ts";
import { CannotRunError, type EngineName } from "./engine.ts";

const HOST = "127.0.0.1";
/** The environment variable with the port of the main process. Workers inherit it. */
const VARIABLE = "TENURE_SHARED_SERVERS";
/** Long enough to install the engine first. */
const START_MAX_MS = 600_000;

/** How to start the shared server of each engine. */
export type SharedStarters = Partial<
  Record<EngineName, () => Promise<AsyncDisposable & { readonly url: string }>>
>;

type Answer =
  | { readonly url: string }
  | { readonly cannotRun: string }
  | { readonly error: string };

/**
 * Starts to share servers. Call it in the main process. Returns a function that stops every server
 * that was started.
 */
export async function shareServers(starters: SharedStarters): Promise<() => Promise<void>> {
  // Every vitest project runs the set-up; the first one serves all of them.
  if (process.env[VARIABLE] !== undefined) return async () => undefined;
  const running = new Map<string, ReturnType<NonNullable<SharedStarters[EngineName]>>>();
  const start = async (name: string): Promise<Answer> => {
    const starter = starters[name as EngineName];
    if (starter === undefined) return { error: `this test run shares no ${name}` };
    const server = running.get(name) ?? starter();
    running.set(name, server);
    try {
      return { url: (await server).url };
    } catch (error) {
      const { message } = error as Error;
      return error instanceof CannotRunError ? { cannotRun: message } : { error: message };
    }
  };
  const listener = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", async (name) =>
      socket.end(`${JSON.stringify(await start(String(name)))}\n`),
    );
  });
  process.env[VARIABLE] = String(await listen(listener));
  return async () => {
    delete process.env[VARIABLE];
    listener.close();
    const servers = await Promise.allSettled(running.values());
    for (const server of servers)
      if (server.status === "fulfilled") await server.value[Symbol.asyncDispose]();
  };
}

/**
 * The URL of the shared server. Undefined outside a run that shares servers, for example in a
 * benchmark.
 */
export async function sharedUrl(name: EngineName): Promise<string | undefined> {
  const port = process.env[VARIABLE];
  if (port === undefined) return undefined;
  const whole = (answer: Buffer, ended: boolean): string | undefined =>
    ended ? String(answer) : undefined;
  const line = await ask({ host: HOST, port: Number(port) }, name, whole, START_MAX_MS);
  if (!line)
    throw new Error(`The main process of the test run did not answer with the URL of its ${name}.`);
  const answer = JSON.parse(line) as Answer;
  if ("url" in answer) return answer.url;
  if ("cannotRun" in answer) throw new CannotRunError(answer.cannotRun);
  throw new Error(`The shared ${name} could not be started: ${answer.error}`);
}

function listen(listener: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    listener.once("error", reject);
    listener.listen(0, HOST, () => {
      // The listener must not keep the process alive at the end of the run.
      listener.unref();
      resolve((listener.address() as AddressInfo).port);
    });
  });
}
