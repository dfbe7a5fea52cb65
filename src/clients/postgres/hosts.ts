// Several hosts behind one link: the first of them that takes writes is used, and when it stops doing so the others are asked
// again, in order. Only one host is used at a time, so requests of one process never reach two servers at once; that two
// servers do not both believe to be primary is the affair of whoever promotes them, and a promotion raises the tokens.

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

/** Servers say these when they take no writes any more, are going away, or are not there yet. */
const LOST = /^(25006|57P0\d|08\w{3})$/;

/** `shareMs`: how long one of them may take to tell whether it is primary. */
export function linkFromHosts(hosts: readonly Host[], clock: Clock, shareMs: number): PgLink {
  const address = hosts.map((host) => host.address).join(",");
  let current: PgLink | undefined;
  let choosing: Promise<PgLink> | undefined;
  let isClosed = false;

  const lose = (link: PgLink): void => {
    if (current !== link) return;
    current = undefined;
    void link.close().catch(() => undefined);
  };
  const chosen = (): PgLink | Promise<PgLink> => {
    if (current !== undefined) return current;
    choosing ??= firstPrimary(hosts, clock, shareMs)
      .then((link) => {
        if (!isClosed) current = link;
        else void link.close().catch(() => undefined);
        return link;
      })
      .finally(() => {
        choosing = undefined;
      });
    return choosing;
  };
  return {
    library: "pg",
    address,
    isReached: () => current !== undefined,
    query: async (call) => {
      let isAbandoned = false;
      call.abandon = () => {
        isAbandoned = true;
      };
      const link = await chosen();
      if (isAbandoned) throw new Error("The request was given up before a primary was found.");
      return through(link, call, () => lose(link));
    },
    listen: async (channel, hearing) => {
      const link = await chosen();
      if (link.listen === undefined) throw new Error("This link cannot listen.");
      return link.listen(channel, hearing);
    },
    close: async () => {
      isClosed = true;
      await current?.close();
    },
  };
}

/** The same request on the link of one host; an unanswered one, and some errors, mean that another host may be primary now. */
async function through(link: PgLink, call: Call, lost: () => void): Promise<readonly Row[]> {
  const inner: Call = {
    text: call.text,
    values: call.values,
    abandon: undefined,
    get sent() {
      return call.sent;
    },
    set sent(sent) {
      call.sent = sent;
    },
  };
  call.abandon = () => {
    inner.abandon?.();
    lost();
  };
  try {
    return await link.query(inner);
  } catch (error) {
    const { code, severity } = error as { code?: unknown; severity?: unknown };
    // What the server itself said about a request is no reason; that it could not be reached is.
    if (severity === undefined || LOST.test(String(code))) lost();
    throw error;
  }
}

async function firstPrimary(
  hosts: readonly Host[],
  clock: Clock,
  shareMs: number,
): Promise<PgLink> {
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
  const message = `None of the hosts in the URL takes writes: ${reasons.join("; ")}.`;
  // A standby may be promoted, a host may come back: worth another try, unless all of them refuse for good.
  throw failure !== undefined && isLasting(failure)
    ? new StoreUnusableError(message, { cause: failure })
    : new StoreUnavailableError(message, { applied: "no", cause: failure });
}

/** Asks whether it is primary. A server may take the connection and then say nothing. */
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

/** Login, database and permissions: nothing changes until somebody changes a setting. */
function isLasting(error: unknown): boolean {
  return /^(28|3D|42)/.test(String((error as { code?: unknown })?.code ?? ""));
}
