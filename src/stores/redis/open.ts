// Opens a store: connects, checks that the server is suitable, and writes once. One time limit
// covers all of it, and every error names the setting to change.

import type { Clock, Timer } from "../../async/clock.ts";
import { connectFailure } from "../../clients/redis/failures.ts";
import type { Place } from "../../clients/redis/url.ts";
import {
  loadLibrary,
  type RedisClient,
  type RedisLibraryName,
  type Wire,
  wireOf,
} from "../../clients/redis/wire.ts";
import {
  InvalidArgumentError,
  isTenureError,
  StoreUnavailableError,
  StoreUnusableError,
} from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import type { Store, StoreParts } from "../contract.ts";
import { Channels } from "./channels.ts";
import { inspect, keepsScripts, promises, rejectUnsuitable } from "./inspect.ts";
import type { Names } from "./names.ts";
import { Requests } from "./requests.ts";
import { scripts } from "./scripts.lua.ts";
import { type Opened, RedisStore } from "./store.ts";

export interface OpenSettings {
  readonly place: Place | undefined;
  readonly names: Names;
  readonly replicas: number;
  readonly connectMs: number;
  readonly onWarning: ((text: string) => void) | undefined;
}

export interface ConnectSettings extends OpenSettings {
  readonly client: RedisClient | undefined;
  readonly library: RedisLibraryName | undefined;
  readonly tls: object | undefined;
}

export async function connectWire(settings: ConnectSettings): Promise<Wire> {
  const { client, place, connectMs, tls } = settings;
  if (client !== undefined) return wireOf(client);
  if (place === undefined) throw new InvalidArgumentError("redisStore() needs url or client.");
  const library = await loadLibrary(settings.library, place.kind);
  return library.connect({ place, connectMs, tls });
}

/** Opens a store on any connection. The simulator passes its own. */
export async function openOnWire(
  settings: OpenSettings,
  parts: StoreParts,
  connect: () => Promise<Wire>,
): Promise<Store> {
  const { connectMs, onWarning = parts.warn } = settings;
  const place = settings.place?.shown ?? "the client's address";
  let wire: Wire | undefined;
  const opening = (async () => {
    wire = await connect();
    return await prepare({ ...settings, onWarning }, wire, place, parts.clock);
  })();
  try {
    return new RedisStore(await within(parts.clock, connectMs, place, opening), parts);
  } catch (error) {
    wire?.close();
    // It may still succeed, but too late.
    opening.then(
      ({ requests }) => requests.close(),
      () => wire?.close(),
    );
    if (isTenureError(error)) throw error;
    throw isMissingDatabase(error) ? toDatabaseError(place, error) : connectFailure(error, place);
  }
}

async function prepare(
  settings: OpenSettings & { readonly onWarning: (text: string) => void },
  wire: Wire,
  place: string,
  clock: Clock,
): Promise<Opened> {
  const { names, replicas, connectMs } = settings;
  if (wire.isCluster && replicas > 0) {
    throw new StoreUnusableError(
      "`replicas` does not work with a cluster client: WAIT cannot be sent to the node that granted. Leave it out.",
    );
  }
  if (settings.place !== undefined) await selectDatabase(wire, settings.place);
  const facts = await inspect(wire);
  rejectUnsuitable(facts, place, wire.isCluster);
  if (facts.replicas !== undefined && facts.replicas < replicas) {
    throw new StoreUnusableError(
      `\`replicas: ${replicas}\` asks for more than the ${facts.replicas} replicas that follow Redis at ${place}.`,
    );
  }
  const channels = new Channels(wire, place, clock);
  const requests = await Requests.open({
    wire,
    clock,
    place,
    names,
    replicas,
    keepsScripts: keepsScripts(facts),
    onSilence: () => channels.reset(),
  });
  await requests.run({ script: scripts.probe, args: [], limitMs: connectMs });
  const { guarantees, warnings } = promises(facts, replicas);
  for (const warning of warnings) settings.onWarning(warning);
  return { names, requests, channels, guarantees };
}

/**
 * ioredis ignores an error reply to its SELECT and stays in database 0, so we select once more and
 * check the reply.
 */
async function selectDatabase(wire: Wire, place: Place): Promise<void> {
  const db = place.kind === "cluster" ? 0 : place.db;
  if (db > 0) await wire.send(["select", String(db)], "");
}

function isMissingDatabase(error: unknown): boolean {
  return /DB index is out of range/i.test(String((error as Error)?.message));
}

function toDatabaseError(place: string, cause: unknown): StoreUnusableError {
  return new StoreUnusableError(
    `Redis at ${place} does not have the database of this number: it has 16, from 0, unless \`databases\` in redis.conf says otherwise. Name another in the URL, or raise \`databases\`.`,
    { cause: redacted(cause) },
  );
}

function within<T>(clock: Clock, limitMs: number, place: string, opening: Promise<T>): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_, reject) => {
    const giveUp = (): void => {
      const message = `Redis at ${place} did not answer within ${limitMs} ms (connectMs). Check host, port and firewall, and rediss:// against redis://.`;
      reject(new StoreUnavailableError(message, { applied: "no" }));
    };
    timer = clock.setTimer(giveUp, limitMs, { keepAlive: true });
  });
  return Promise.race([opening, late]).finally(() => timer?.cancel());
}
