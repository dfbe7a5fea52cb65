// Several hosts behind one link. The first host that accepts writes is used. When it stops
// accepting them, the hosts are tried again in order. Only one host is used at a time, so the
// requests of one process never reach two servers at once. Whether two servers both act as primary
// is up to the system that promotes them; a promotion raises the tokens.

import type { Clock } from "../../async/clock.ts";
import { getSharedLimits } from "../../async/limits.ts";
import { StoreUnavailableError, StoreUnusableError } from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import type { Call, PgLink, Row } from "./link.ts";

export interface Host {
  /** Host, port and database, for messages. */
  readonly address: string;
  open(): PgLink;
}

const IS_PRIMARY = `SELECT pg_is_in_recovery()::text AS standby, current_setting('transaction_read_only') AS readonly`;

/** The server does not accept writes any more, shuts down, or is not ready yet. */
const LOST = /^(25006|57P0\d|08\w{3})$/;

/** `shareMs`: how long one host may take to say whether it is primary. */
export function linkFromHosts(hosts: readonly Host[], clock: Clock, shareMs: number): PgLink {
  let current: PgLink | undefined;
  let choosing: Promise<PgLink> | undefined;
  let isClosed = false;

  const drop = (link: PgLink): void => {
    if (current !== link) return;
    current = undefined;
    void link.close().catch(() => undefined);
  };
  const choose = async (): Promise<PgLink> => {
    if (current !== undefined) return current;
    choosing ??= findPrimary(hosts, clock, shareMs)
      .then((link) => {
        current = link;
        if (isClosed) drop(link);
        return link;
      })
      .finally(() => {
        choosing = undefined;
      });
    return choosing;
  };
  return {
    library: "pg",
    address: hosts.map((host) => host.address).join(","),
    isReached: () => current !== undefined,
    query: async (call) => {
      let isAbandoned = false;
      call.abandon = () => {
        isAbandoned = true;
      };
      const link = await choose();
      if (isAbandoned) throw new Error("The request was abandoned before a primary was found.");
      // The link sets `abandon` of its own call whenever it sends.
      const inner: Call = {
        ...call,
        abandon: undefined,
        get sent() {
          return call.sent;
        },
        set sent(isSent: boolean) {
          call.sent = isSent;
        },
      };
      call.abandon = () => {
        inner.abandon?.();
        drop(link);
      };
      try {
        return await link.query(inner);
      } catch (error) {
        const { code, severity } = error as { code?: unknown; severity?: unknown };
        // An error that the server sent about a request is no reason to leave it. A broken
        // connection is.
        if (severity === undefined || LOST.test(String(code))) drop(link);
        throw error;
      }
    },
    listen: async (channel, events) => {
      const link = await choose();
      if (link.listen === undefined) throw new Error("This link cannot listen.");
      return link.listen(channel, events);
    },
    close: async () => {
      isClosed = true;
      await current?.close();
    },
  };
}

async function findPrimary(hosts: readonly Host[], clock: Clock, shareMs: number): Promise<PgLink> {
  const reasons: string[] = [];
  let failure: Error | undefined;
  for (const host of hosts) {
    const link = host.open();
    try {
      const [row] = await within(clock, shareMs, (call) => link.query(call));
      if (row?.standby === "false" && row.readonly === "off") return link;
      reasons.push(`${host.address} is ${row?.standby === "true" ? "a standby" : "read-only"}`);
    } catch (error) {
      failure = redacted(error);
      reasons.push(`${host.address}: ${failure.message || failure.name}`);
    }
    void link.close().catch(() => undefined);
  }
  const message = `None of the hosts in the URL accepts writes: ${reasons.join("; ")}.`;
  // A standby may be promoted and a host may return. An error in the settings stays.
  throw failure !== undefined && isLasting(failure)
    ? new StoreUnusableError(message, { cause: failure })
    : new StoreUnavailableError(message, { applied: "no", cause: failure });
}

/** Asks a host whether it is primary. A server may accept the connection and never answer. */
function within(
  clock: Clock,
  limitMs: number,
  ask: (call: Call) => Promise<readonly Row[]>,
): Promise<readonly Row[]> {
  const call: Call = { text: IS_PRIMARY, values: [], sent: false, abandon: undefined };
  return new Promise((resolve, reject) => {
    const limit = getSharedLimits(clock).start(limitMs, () => {
      reject(new Error(`no answer within ${Math.round(limitMs)} ms`));
      call.abandon?.();
    });
    ask(call)
      .finally(() => limit.end())
      .then(resolve, reject);
  });
}

/** Login, database and permissions: the error stays until a setting is changed. */
function isLasting(error: unknown): boolean {
  return /^(28|3D|42)/.test(String((error as { code?: unknown })?.code ?? ""));
}
