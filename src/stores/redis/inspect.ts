// Finds out what kind of server this is, once at connect: its version and role, and whether it can
// lose or evict data. What this user may not query is unknown, and the guarantees then assume the
// worse case.

import { replyCode } from "../../clients/redis/failures.ts";
import type { Wire } from "../../clients/redis/wire.ts";
import { StoreUnusableError } from "../../core/errors.ts";
import type { Guarantees } from "../contract.ts";

/** Undefined: this user may not query it. */
export interface ServerFacts {
  readonly version: string | undefined;
  readonly role: string | undefined;
  readonly isCluster: boolean | undefined;
  readonly replicas: number | undefined;
  readonly appendonly: boolean | undefined;
  readonly appendfsync: string | undefined;
  readonly saves: boolean | undefined;
  readonly evicts: string | undefined;
}

const OLDEST = [6, 2] as const;

export async function inspect(wire: Wire): Promise<ServerFacts> {
  const [info, settings] = await Promise.all([
    allowed(wire.send(["info"], "")),
    allowed(Promise.all(SETTINGS.map((name) => wire.send(["config", "GET", name], "")))),
  ]);
  const known = info === undefined ? new Map<string, string>() : infoOf(String(info));
  const config = new Map((settings ?? []).flatMap(pairsOf));
  const aof = known.get("aof_enabled");
  const policy = config.get("maxmemory-policy") ?? known.get("maxmemory_policy");
  const limit = config.get("maxmemory") ?? known.get("maxmemory");
  const slaves = known.get("connected_slaves");
  const save = config.get("save");
  const cluster = known.get("cluster_enabled");
  return {
    version: known.get("redis_version"),
    role: known.get("role"),
    isCluster: cluster === undefined ? undefined : cluster === "1",
    replicas: slaves === undefined ? undefined : Number(slaves),
    appendonly: aof === undefined ? undefined : aof === "1",
    appendfsync: config.get("appendfsync"),
    saves: save === undefined ? undefined : save !== "",
    evicts: limit === "0" ? "noeviction" : policy,
  };
}

const SETTINGS = ["appendfsync", "save", "maxmemory", "maxmemory-policy"];

/** Before 7.0 a server saves its scripts with the data, and passes them to its replicas. */
export function keepsScripts({ version }: ServerFacts): boolean {
  return version !== undefined && Number.parseInt(version, 10) < 7;
}

/** Rejects servers that can never be used. */
export function rejectUnsuitable(facts: ServerFacts, place: string, askedAsCluster = false): void {
  const [major = 0, minor = 0] = (facts.version ?? "").split(".").map(Number);
  const tooOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
  if (facts.version !== undefined && tooOld) {
    throw new StoreUnusableError(
      `Redis at ${place} is version ${facts.version}; Tenure needs ${OLDEST.join(".")} or newer. Upgrade the server.`,
    );
  }
  // A single node would work until the keys move to another one.
  if (facts.isCluster === true && !askedAsCluster) {
    throw new StoreUnusableError(
      `Redis at ${place} is part of a cluster. Write ?cluster=1 into the URL, or pass a cluster client: redisStore({ client: new Cluster([...]) }).`,
    );
  }
  if (facts.role === "slave") {
    throw new StoreUnusableError(
      `Redis at ${place} is a read-only replica. Name the master in the URL, or the Sentinels that know it: redis+sentinel://host:26379/name.`,
    );
  }
}

/** What these facts mean for the user, and the warnings about them. */
export function promises(
  facts: ServerFacts,
  replicas: number,
): { readonly guarantees: Guarantees; readonly warnings: readonly string[] } {
  const durable = facts.appendonly === true && facts.appendfsync === "always";
  const evicts = facts.evicts !== undefined && facts.evicts !== "noeviction";
  const losses = ["a restore from a copy, or deleting the counter"];
  const warnings: string[] = [];
  if (!durable) {
    const loss = lossOf(facts);
    losses.push(`a restart (${loss})`);
    warnings.push(
      `A lease may be granted twice when Redis restarts: ${loss}. Set appendonly yes and appendfsync always.`,
    );
  }
  losses.push(
    replicas > 0
      ? `the promotion of a replica that is not among the ${replicas} that confirmed`
      : "the promotion of a replica that missed writes",
  );
  if (evicts) {
    losses.push(`eviction (maxmemory-policy ${facts.evicts} may evict the counter)`);
    warnings.push(
      `Redis may evict leases when memory runs out (maxmemory-policy ${facts.evicts}), and then grant them twice. Set noeviction.`,
    );
  }
  const guarantees: Guarantees = {
    store: "redis",
    tokenSource:
      "one counter for all resources of the prefix, raised by the granting script; after a restart, a promotion or the loss of the counter it starts at the server's wall clock, or above the last known token if that is higher",
    tokenFalls: `when data is lost and the server's wall clock was set back before (data is lost by ${losses.join("; ")}), or when the counter is set to a lower number by hand`,
    expiryClock: "the server's wall clock: a step of it moves every expiry",
    ttlStepMs: 1,
    expiryLagMs: 2,
    wakeUp: "push",
    fifo: true,
    durable: durable && !evicts,
  };
  return { guarantees, warnings };
}

function lossOf(facts: ServerFacts): string {
  if (facts.appendonly === undefined) return "this user may not ask how the server keeps its data";
  if (facts.appendonly)
    return `appendfsync ${facts.appendfsync ?? "unknown"}: the last moments before a power cut are lost`;
  return facts.saves === true
    ? "appendonly no: everything since the last snapshot is lost"
    : "appendonly no and no snapshots: everything is lost";
}

/** Undefined if an ACL or a provider forbids the query. */
async function allowed<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    const code = replyCode(error);
    if (code === "NOPERM" || code === "ERR") return undefined;
    throw error;
  }
}

function infoOf(text: string): Map<string, string> {
  const lines = text.split(/\r?\n/).map((line) => /^([^#:]+):(.*)$/.exec(line));
  return new Map(lines.flatMap((line) => (line === null ? [] : [[line[1] ?? "", line[2] ?? ""]])));
}

/** CONFIG GET answers with a list (RESP2), or a map (RESP3), which is an object or a Map here. */
function pairsOf(answer: unknown): [string, string][] {
  if (answer instanceof Map)
    return [...answer].map(([name, value]) => [String(name), String(value)]);
  if (Array.isArray(answer))
    return answer.flatMap((name, at) =>
      at % 2 === 0 ? [[String(name), String(answer[at + 1])]] : [],
    );
  return Object.entries((answer ?? {}) as object).map(([name, value]) => [name, String(value)]);
}
