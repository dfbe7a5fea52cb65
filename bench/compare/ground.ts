// What the safety trials stand on: one server of each engine, and lanes, because most of a trial is waiting.

import { disposeAll, type RunningServer } from "../../test/servers/server.ts";
import { type EngineId, engineIds, engines } from "../overlap/contestants.ts";

export type ServerOf = (engine: EngineId) => RunningServer;

export async function withServers<T>(work: (serverOf: ServerOf) => Promise<T>): Promise<T> {
  const servers = new Map<EngineId, RunningServer>();
  try {
    for (const id of engineIds) servers.set(id, await engines[id]());
    return await work((engine) => {
      const server = servers.get(engine);
      if (server === undefined) throw new Error(`no server for ${engine}`);
      return server;
    });
  } finally {
    await disposeAll([...servers.values()]);
  }
}

/** Each job once, so many at a time. */
export async function inLanes<T>(
  jobs: T[],
  atATime: number,
  run: (job: T) => Promise<void>,
): Promise<void> {
  const lane = async (): Promise<void> => {
    for (let next = jobs.shift(); next !== undefined; next = jobs.shift()) await run(next);
  };
  await Promise.all(Array.from({ length: atATime }, lane));
}
