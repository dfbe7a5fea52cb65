// From settings to a cluster that is known to be fit: log in, ask for the version, and try out what the role allows. All
// of it within one limit, and whatever fails says which setting to look at.

import type { Clock, Timer } from "../../async/clock.ts";
import { isTenureError, StoreUnavailableError, StoreUnusableError } from "../../core/errors.ts";
import { connectFailure, statusOf } from "./errors.ts";
import type { Txn } from "./kv.ts";
import { EtcdClient } from "./client.ts";
import type { Names } from "./names.ts";
import type { Settings } from "./options.ts";
import { status, txn } from "./rpc.ts";

const OLDEST = [3, 4] as const;

/** `warn` is used if the options have no `onWarning`. */
export interface OpenParts {
  readonly clock: Clock;
  readonly warn: (text: string) => void;
}

export async function openClient(
  settings: Settings,
  { clock, warn }: OpenParts,
): Promise<EtcdClient> {
  const { connectMs, login, onWarning = warn } = settings;
  const members = new EtcdClient(settings.transports(clock), login, clock);
  try {
    await within(clock, connectMs, members.place, prepare(members, settings));
  } catch (error) {
    members.close();
    const isLink =
      error instanceof StoreUnavailableError &&
      error.cause !== undefined &&
      statusOf(error.cause) === undefined;
    throw isLink ? connectFailure(error, members.place) : error;
  }
  return members;

  async function prepare(opened: EtcdClient, { names }: Settings): Promise<void> {
    // Later than the limit of the whole: that one's message names the setting.
    const limitMs = connectMs + 500;
    await opened.logIn(limitMs);
    const version = await opened.call(status, undefined, { limitMs }).catch((error: unknown) => {
      // A role may not be allowed to ask: then it is trusted to be new enough.
      if (isTenureError(error, "STORE_UNUSABLE")) return undefined;
      throw error;
    });
    if (version !== undefined) {
      refuseOld(version, opened.place);
      for (const warning of warningsOf(version)) onWarning(warning);
    }
    await opened.call(txn, probe(names), { limitMs });
  }
}

/** Its condition is never true, so nothing is written; but etcd checks the permission for all of it, and a majority agrees. */
function probe({ all }: Names): Txn {
  return {
    when: [{ key: all.key, target: "create", is: "=", than: -1n }],
    yes: [{ remove: all }],
    no: [{ get: { ...all, limit: 1, keysOnly: true } }],
  };
}

function refuseOld(version: string, place: string): void {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new StoreUnusableError(
    `etcd at ${place} is version ${version || "unknown"}; Tenure needs ${OLDEST.join(".")} or newer. Upgrade the cluster.`,
  );
}

/** Faults of etcd that no client can make up for. */
function warningsOf(version: string): string[] {
  const [major = 0, minor = 0, patch = 0] = version
    .split(".")
    .map((part) => Number.parseInt(part, 10));
  const fixedIn = { 4: 31, 5: 13 }[minor] ?? 0;
  const isFixed = major > 3 || patch >= fixedIn;
  return isFixed
    ? []
    : [
        `etcd ${version} may end live leases when a leader that was stalled wakes up (etcd-io/etcd#15247). Upgrade to 3.4.31, 3.5.13 or newer.`,
      ];
}

function within<T>(clock: Clock, limitMs: number, place: string, work: Promise<T>): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_, reject) => {
    const giveUp = (): void => {
      const message = `etcd at ${place} did not answer within ${limitMs} ms (connectMs). Check host, port and firewall, etcds:// against etcd://, and that a majority of the members is up.`;
      reject(new StoreUnavailableError(message, { applied: "no" }));
    };
    timer = clock.setTimer(giveUp, limitMs, { keepAlive: true });
  });
  return Promise.race([work, late]).finally(() => timer?.cancel());
}
