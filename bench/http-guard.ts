// How long a holder's requests take through httpGuard() while former holders disturb it: 40 clients
// that repeat their stale request in a loop, or one client that does not read its response.
// Service, stale clients and holder are three processes. Quiet and disturbed slices alternate, so
// that other work on the machine affects both.

import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { atMost, type Row, type Section } from "./results.ts";
import { formatRange, median, quantile } from "./statistics.ts";
import type { Context } from "./topic.ts";
import { Worker } from "./workers.ts";

const STALE_CLIENTS = 40;
/** A holder that gets no answer for this long is starved. */
const ANSWER_MAX_MS = 20_000;
/** The disturbed p99 may be this many times the quiet one. */
const RATIO_MAX = 2;

/** Milliseconds of each request of the holder, by slice. */
export interface HolderTimes {
  readonly quiet: readonly (readonly number[])[];
  readonly disturbed: readonly (readonly number[])[];
}

export interface HolderSetup {
  readonly former: "stale clients" | "unread response";
  /**
   * The server that keeps the highest tokens. Without it, a memory guard answers after 4 to 12 ms.
   */
  readonly postgresUrl?: string | undefined;
  /** Slices of each kind, at most. */
  readonly slices: number;
  /** Ends the measurement early. */
  readonly isEnough?: ((times: HolderTimes) => boolean) | undefined;
  /** At least 100, for a p99 of each slice. */
  readonly requestsPerSlice: number;
}

export async function* httpGuards({ quick, servers }: Context): AsyncGenerator<Section> {
  const size = { slices: quick ? 3 : 9, requestsPerSlice: 100 };
  const rows: Row[] = [];
  for (const former of ["stale clients", "unread response"] as const) {
    const delayed = await measureHolder({ ...size, former });
    rows.push(...toRows(`guard of 4 to 12 ms, ${former}`, delayed));
    const postgresUrl = await servers.url("postgres");
    const postgres = await measureHolder({ ...size, former, postgresUrl });
    rows.push(...toRows(`postgresGuard, ${former}`, postgres));
  }
  yield {
    title: "HTTP guard: the holder's requests while former holders disturb it",
    method: `${size.slices} slices of ${size.requestsPerSlice} requests, quiet and disturbed in turn; every slice is a new term. "stale clients": ${STALE_CLIENTS} clients with the previous token, in a loop. "unread response": the former holder has not read its response of 20 MB.`,
    rows,
  };
}

function toRows(label: string, { quiet, disturbed }: HolderTimes): Row[] {
  const ms = (value: number): string => `${value.toFixed(2)} ms`;
  const show = (slices: readonly (readonly number[])[]): string =>
    `p50 ${ms(quantile(slices.flat(), 0.5))}, p99 ${ms(quantile(slices.flat(), 0.99))}`;
  // Each disturbed slice against the quiet one before it.
  const ratios = disturbed.map(
    (values, slice) => quantile(values, 0.99) / quantile(quiet[slice] ?? [], 0.99),
  );
  const ratio = atMost(
    `${label}: p99, disturbed to quiet`,
    median(ratios),
    RATIO_MAX,
    (value) => `${value.toFixed(2)}x`,
  );
  return [
    { label: `${label}: quiet`, measured: show(quiet) },
    { label: `${label}: disturbed`, measured: show(disturbed) },
    { ...ratio, range: formatRange(ratios) },
  ];
}

export async function measureHolder(setup: HolderSetup): Promise<HolderTimes> {
  const service = new Worker("fenced-service.mjs", { postgresUrl: setup.postgresUrl });
  const port = await service.next<number>();
  const clients = new Worker("stale-clients.mjs", { port });
  const agent = new Agent({ keepAlive: true });
  const times = { quiet: [] as number[][], disturbed: [] as number[][] };
  // Higher than the tokens of earlier measurements, which the server remembers.
  let token = Date.now();
  const slice = async (former: Disturbance | undefined): Promise<number[]> => {
    token += 2;
    const put = (): Promise<number> => timeRequest({ port, agent, token });
    const stop = await former?.({ port, clients, token: token - 1, put });
    const values: number[] = [];
    for (let count = 0; count < setup.requestsPerSlice; count += 1) values.push(await put());
    await stop?.();
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
    await Promise.all([service.end(), clients.end()]);
  }
}

interface Scene {
  readonly port: number;
  readonly clients: Worker;
  /** The former holder's. */
  readonly token: number;
  /** Sends one request of the holder. */
  put(): Promise<number>;
}

/** Starts disturbing, and resolves with a function that stops it. */
type Disturbance = (scene: Scene) => Promise<() => Promise<void>>;

const DISTURBANCES: Record<HolderSetup["former"], Disturbance> = {
  "stale clients": async ({ clients, token, put }) => {
    // The clients are stale only after the holder's first request.
    await put();
    await clients.ask({ clients: STALE_CLIENTS, token });
    return async () => {
      const rejected = await clients.ask<number>({ clients: 0, token });
      if (rejected === 0) throw new Error("The stale clients sent no request.");
    };
  },
  "unread response": async ({ port, token }) => {
    const socket: Socket = connect(port, "127.0.0.1");
    socket.write(
      `PUT /large HTTP/1.1\r\nHost: 127.0.0.1\r\nFencing-Token: resource="ledger", token=${token}\r\n` +
        "Content-Length: 0\r\n\r\n",
    );
    // The first bytes show that the handler has answered. The rest stays in the service.
    await once(socket, "data");
    socket.pause();
    return async () => {
      socket.destroy();
    };
  },
};

function timeRequest(put: { port: number; agent: Agent; token: number }): Promise<number> {
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
