// How long a holder's requests take through httpGuard() while former holders get in its way: 40 clients that repeat their stale
// request in a loop, or one client that does not read its response. Service, stale clients and holder are three processes.
// Quiet slices and disturbed ones are measured in turn, so that whatever else the machine does falls on both alike.

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { startPostgres } from "../test/servers/postgres.ts";
import { atMost, median, quantile, type Row, type Section, spread } from "./support.ts";
import { answer, endWorker, heard, startWorker } from "./workers.ts";

const STALE_CLIENTS = 40;
/** A holder that gets no answer for this long is starved. */
const ANSWER_MAX_MS = 20_000;
/** The p99 beside former holders, at most this many times the quiet one. */
const TIMES_MAX = 2;

/** Milliseconds of each request of the holder, by slice. */
export interface HolderTimes {
  readonly quiet: readonly (readonly number[])[];
  readonly disturbed: readonly (readonly number[])[];
}

export interface HolderSetup {
  readonly former: "stale clients" | "unread response";
  /** Of the PostgreSQL server that keeps the highest tokens. Without it, a guard in memory answers after 4 to 12 ms. */
  readonly postgresUrl?: string | undefined;
  /** How many of each kind, at most. */
  readonly slices: number;
  /** Ends the measurement early. */
  readonly isEnough?: ((times: HolderTimes) => boolean) | undefined;
  /** At least 100, for a p99 of each slice. */
  readonly requestsPerSlice: number;
}

export async function httpHolder(): Promise<Section> {
  await using server = await startPostgres({ own: true });
  const size = { slices: 9, requestsPerSlice: 100 };
  const rows: Row[] = [];
  for (const former of ["stale clients", "unread response"] as const) {
    const delayed = await holderTimes({ ...size, former });
    rows.push(...rowsOf(`guard of 4 to 12 ms, ${former}`, delayed));
    const postgres = await holderTimes({ ...size, former, postgresUrl: server.url });
    rows.push(...rowsOf(`postgresGuard, ${former}`, postgres));
  }
  return {
    title: "A holder's requests through the HTTP guard, beside former holders",
    method: `${size.slices} slices of ${size.requestsPerSlice} requests, one after the other, quiet and disturbed in turn; every slice is a new term. "stale clients": ${STALE_CLIENTS} clients with the token of the term before, in a loop. "unread response": the former holder has not read its response of 20 MB.`,
    rows,
  };
}

function rowsOf(what: string, times: HolderTimes): Row[] {
  const ms = (value: number): string => `${value.toFixed(2)} ms`;
  const shown = (slices: readonly (readonly number[])[]): string =>
    `p50 ${ms(quantile(slices.flat(), 0.5))}, p99 ${ms(quantile(slices.flat(), 0.99))}`;
  const ratios = p99Ratios(times);
  const label = `${what}: p99 disturbed to quiet, median of the slices (${spread(ratios)})`;
  return [
    { what: `${what}: quiet`, measured: shown(times.quiet) },
    { what: `${what}: disturbed`, measured: shown(times.disturbed) },
    atMost(label, median(ratios), TIMES_MAX, (value) => `${value.toFixed(2)}x`),
  ];
}

/** Of each disturbed slice to the quiet one before it. */
function p99Ratios({ quiet, disturbed }: HolderTimes): number[] {
  return disturbed.map(
    (values, slice) => quantile(values, 0.99) / quantile(quiet[slice] ?? [], 0.99),
  );
}

export async function holderTimes(setup: HolderSetup): Promise<HolderTimes> {
  const service = startWorker("fenced-service.mjs", setup.postgresUrl ?? "");
  const port = await heard<number>(service);
  const clients = startWorker("stale-clients.mjs", String(port));
  const agent = new Agent({ keepAlive: true });
  const times = { quiet: [] as number[][], disturbed: [] as number[][] };
  // Above those of the measurement before, which the same server may remember.
  let token = Date.now();
  const slice = async (former: Disturbance | undefined): Promise<number[]> => {
    token += 2;
    const put = (): Promise<number> => timeOf({ port, agent, token });
    const calm = await former?.({ port, clients, token: token - 1, put });
    const values: number[] = [];
    for (let count = 0; count < setup.requestsPerSlice; count += 1) values.push(await put());
    await calm?.();
    return values;
  };
  try {
    // Warms up both processes.
    await slice(undefined);
    for (let count = 0; count < setup.slices; count += 1) {
      times.quiet.push(await slice(undefined));
      times.disturbed.push(await slice(DISTURBANCES[setup.former]));
      if (setup.isEnough?.(times)) break;
    }
    return times;
  } finally {
    agent.destroy();
    await Promise.all([endWorker(service), endWorker(clients)]);
  }
}

interface Scene {
  readonly port: number;
  readonly clients: ChildProcess;
  /** Of the former holder. */
  readonly token: number;
  /** A request of the holder. */
  put(): Promise<number>;
}

/** Begins, and resolves with the function that ends it. */
type Disturbance = (scene: Scene) => Promise<() => Promise<void>>;

const DISTURBANCES: Record<HolderSetup["former"], Disturbance> = {
  "stale clients": async ({ clients, token, put }) => {
    // Until the first request of the holder they would not be stale.
    await put();
    await answer(clients, { clients: STALE_CLIENTS, token });
    return async () => {
      const rejected = await answer<number>(clients, { clients: 0, token });
      if (rejected === 0) throw new Error("The stale clients sent no request.");
    };
  },
  "unread response": async ({ port, token }) => {
    const socket: Socket = connect(port, "127.0.0.1");
    socket.write(
      `PUT /large HTTP/1.1\r\nHost: 127.0.0.1\r\nFencing-Token: resource="ledger", token=${token}\r\n` +
        "Content-Length: 0\r\n\r\n",
    );
    // The beginning shows that the handler has answered. The rest stays in the service.
    await once(socket, "data");
    socket.pause();
    return async () => {
      socket.destroy();
    };
  },
};

function timeOf(put: { port: number; agent: Agent; token: number }): Promise<number> {
  const { port, agent, token } = put;
  const headers = { "Fencing-Token": `resource="ledger", token=${token}` };
  return new Promise((resolve, reject) => {
    const from = performance.now();
    const signal = AbortSignal.timeout(ANSWER_MAX_MS);
    const options = { host: "127.0.0.1", port, agent, method: "PUT", headers, signal };
    const sent = request(options, (response) => {
      response.resume().once("end", () => {
        if (response.statusCode === 200) resolve(performance.now() - from);
        else reject(new Error(`The holder was answered with ${response.statusCode}.`));
      });
    });
    sent.once("error", reject);
    sent.end("an entry of the ledger");
  });
}
