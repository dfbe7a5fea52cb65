// From options to a server that is known to be fit: connect, load the scripts, look what kind of server it is, and write
// once. All of it within one limit, and whatever fails says which setting to look at.

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
import type { Guarantees, Store, StoreParts } from "../contract.ts";
import { Bundles } from "./bundles.ts";
import { Channels } from "./channels.ts";
import { inspect, keepsScripts, promises, refuseUnfit } from "./inspect.ts";
import type { Names } from "./names.ts";
import { Requests } from "./requests.ts";
import { scripts } from "./scripts.ts";
import { RedisStore } from "./store.ts";

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

export interface Opened {
  readonly requests: Requests;
  readonly bundles: Bundles;
  readonly channels: Channels;
  readonly guarantees: Guarantees;
}

/** Opens a store on any connection; the simulator passes its own. */
export async function openOnWire(
  settings: OpenSettings,
  parts: StoreParts,
  connect: () => Promise<Wire>,
): Promise<Store> {
  return new RedisStore(settings.names, parts, await openServer(settings, parts, connect));
}

async function openServer(
  settings: OpenSettings,
  { clock, warn }: StoreParts,
  connect: () => Promise<Wire>,
): Promise<Opened> {
  const { connectMs, onWarning = warn } = settings;
  const place = settings.place?.shown ?? "the client's address";
  let wire: Wire | undefined;
  const opening = (async () => {
    wire = await connect();
    return await prepare({ ...settings, onWarning }, wire, place, clock);
  })();
  try {
    return await within(clock, connectMs, place, opening);
  } catch (error) {
    wire?.close();
    // Too late for anyone to use it.
    opening.then(
      ({ requests }) => requests.close(),
      () => wire?.close(),
    );
    if (isTenureError(error)) throw error;
    throw isMissingDatabase(error) ? noDatabase(place, error) : connectFailure(error, place);
  }
}

export async function connectWire(settings: ConnectSettings): Promise<Wire> {
  const { client, place, connectMs, tls } = settings;
  if (client !== undefined) return wireOf(client);
  if (place === undefined) throw new InvalidArgumentError("redisStore() needs url or client.");
  const library = await loadLibrary(settings.library, place.kind);
  return library.connect({ place, connectMs, tls });
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
  refuseUnfit(facts, place, wire.isCluster);
  if (facts.replicas !== undefined && facts.replicas < replicas) {
    throw new StoreUnusableError(
      `\`replicas: ${replicas}\` asks for more than the ${facts.replicas} replicas that follow Redis at ${place}.`,
    );
  }
  const channels = new Channels(wire, place, clock);
  const onSilence = (): void => channels.reset();
  const requests = await Requests.open({
    wire,
    clock,
    place,
    names,
    keepsScripts: keepsScripts(facts),
    replicas,
    onSilence,
  });
  const probe = { script: scripts.probe, keys: [names.probe], args: [] };
  await requests.run({ ...probe, limitMs: connectMs });
  const { guarantees, warnings } = promises(facts, replicas);
  for (const warning of warnings) settings.onWarning(warning);
  const bundles = new Bundles({ requests, names, clock, confirm: replicas > 0 });
  return { requests, bundles, channels, guarantees };
}

/** ioredis ignores that the server refused its SELECT and stays in database 0. So we select once more and see the answer. */
async function selectDatabase(wire: Wire, place: Place): Promise<void> {
  const db = place.kind === "cluster" ? 0 : place.db;
  if (db > 0) await wire.send(["select", String(db)], "");
}

function isMissingDatabase(error: unknown): boolean {
  return /DB index is out of range/i.test(String((error as Error)?.message));
}

function noDatabase(place: string, cause: unknown): StoreUnusableError {
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
