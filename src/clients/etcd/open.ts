// Opens a client and checks that the cluster is usable: logs in, asks for the version, and checks
// the permissions of the role. All of that has one limit, and errors name the setting to check.

import type { Clock, Timer } from "../../async/clock.ts";
import { isTenureError, StoreUnavailableError, StoreUnusableError } from "../../core/errors.ts";
import { EtcdClient } from "./client.ts";
import { connectFailure, statusOf } from "./errors.ts";
import type { Txn } from "./kv.ts";
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
  const client = new EtcdClient(settings.transports(clock), login, clock);
  try {
    await within(clock, connectMs, client.place, prepare(client, settings));
  } catch (error) {
    client.close();
    const isLink =
      error instanceof StoreUnavailableError &&
      error.cause !== undefined &&
      statusOf(error.cause) === undefined;
    throw isLink ? connectFailure(error, client.place) : error;
  }
  return client;

  async function prepare(opened: EtcdClient, { names }: Settings): Promise<void> {
    // Longer than the limit of the whole, whose error names the setting.
    const limitMs = connectMs + 500;
    await opened.logIn(limitMs);
    const version = await opened.call(status, undefined, { limitMs }).catch((error: unknown) => {
      // The role may not be allowed to ask. Then the version is assumed to be new enough.
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

/**
 * Its condition is never true, so it writes nothing. But etcd checks the permissions for all of it,
 * and a majority confirms it.
 */
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

/** Faults of etcd that no client can compensate for. */
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
