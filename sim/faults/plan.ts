// Draws a plan from a seed: everything that is decided before a run starts, such as sizes,
// durations, clock rates and the planned faults. A plan is plain data, so it can be printed, and
// shrunk by removing parts of it.

import { Chance } from "../world/chance.ts";
import type { Weather } from "../world/network.ts";

/** Faults of single messages. */
const MESSAGE_FAULTS = ["loss", "duplicate", "slow", "very late"] as const;
/** Faults with a planned beginning and, for most, a planned end. */
const PLANNED_FAULTS = [
  "pause",
  "pause before a write",
  "suspend",
  "crash",
  "cut requests",
  "cut answers",
  "cut both ways",
  "cut resource",
  "clock rate",
  "wall clock set",
  "store paused",
  "store refuses",
  "revoke",
  "rolling restart",
  "replay",
] as const;
/**
 * Faults of a store in a file. Its programs share one machine, so network and clock faults do not
 * apply.
 */
const FILE_FAULTS = ["stopped while writing", "killed while writing", "reboot"] as const;
const BEFORE_WRITE = "pause before a write";
/** Faults beyond the bounds that leases assume. Only a guard protects the resource then. */
const BEYOND_FAULTS = ["machine frozen", "clock far off"] as const;

export type FaultKind =
  | (typeof MESSAGE_FAULTS)[number]
  | (typeof PLANNED_FAULTS)[number]
  | (typeof FILE_FAULTS)[number]
  | (typeof BEYOND_FAULTS)[number];

export const FAULT_KINDS: readonly FaultKind[] = [
  ...MESSAGE_FAULTS,
  ...PLANNED_FAULTS,
  ...FILE_FAULTS,
  ...BEYOND_FAULTS,
];

export interface PlannedFault {
  readonly at: number;
  readonly kind: FaultKind;
  /** Index of the program or of the store's server, modulo their number. */
  readonly target: number;
  readonly ms: number;
}

export interface Plan {
  readonly seed: number;
  readonly store: string;
  readonly programs: number;
  readonly ttlMs: number;
  readonly clockErrorMs: number;
  readonly roundTripMs: number;
  /**
   * How long after the requested ttl the store may keep a session, because it rounds or expires in
   * intervals.
   */
  readonly storeLagMs: number;
  /** Clock rates: of the store's machine first, then of each program's. 1 is true time. */
  readonly rates: readonly number[];
  /**
   * The shortest duration of the phase with faults. After it, the calm phase begins as soon as
   * there were enough faults.
   */
  readonly faultyMs: number;
  /** A run with fewer faults is invalid. 0 for a run that was cut short on purpose. */
  readonly faultsMin: number;
  /**
   * The planned duration of the calm phase. It ends earlier once all programs have made progress,
   * except in runs with scheduled jobs.
   */
  readonly calmMs: number;
  readonly kinds: readonly FaultKind[];
  /** The run breaks the bounds that leases assume. S3 and unguarded writes are not checked then. */
  readonly isBeyondBounds: boolean;
  readonly weather: Weather;
  readonly faults: readonly PlannedFault[];
}

/**
 * How long the effects of the faults last after they end: sessions of crashed programs still have
 * to expire.
 */
export function settlingMs({ ttlMs, storeLagMs }: Pick<Plan, "ttlMs" | "storeLagMs">): number {
  return 1.5 * (ttlMs + storeLagMs);
}

/**
 * The usual interval, or a shorter one if needed so that one lost renewal never loses the lease.
 */
export function renewEveryMs(plan: Pick<Plan, "ttlMs" | "clockErrorMs" | "roundTripMs">): number {
  const { ttlMs, clockErrorMs, roundTripMs } = plan;
  return Math.min(ttlMs / 3, (ttlMs - clockErrorMs - 2 * roundTripMs) / 2);
}

const KINDS_MIN = 8;
const FAULTS_MIN = 100;
/** A run with fewer grants is invalid. */
export const GRANTS_MIN = 10;
/** The longest duration of the phase with faults, if a run does not reach its minimum before. */
export const FAULTY_TTLS_MAX = 54;
const USUAL_MS = 4;
/** By store: faults that do not apply to it, and the faults to use instead. */
const SUBSTITUTES: Readonly<Record<string, Partial<Record<FaultKind, FaultKind>>>> = {
  sqlite: {
    "cut requests": "stopped while writing",
    "cut answers": "killed while writing",
    "cut both ways": "reboot",
    "clock rate": "suspend",
    "store paused": "stopped while writing",
  },
};
/** The longest gap between two planned faults, on stores that send few messages. */
const GAP_TTLS_MAX: Readonly<Record<string, number>> = { sqlite: 0.2, redis: 0.2 };
const STORE_LAG_MS: Readonly<Record<string, number>> = { etcd: 2_500, sqlite: 20, zookeeper: 900 };

export function createPlan(seed: number, store: string): Plan {
  const chance = new Chance(`${seed}`).stream("plan");
  const programs = chance.pick([2, 2, 3, 3, 4]);
  const ttlMs = Math.round(chance.between(1_400, 2_400));
  const drift = chance.pick([0.01, 0.02, 0.05]);
  const isOneMachine = store === "sqlite";
  const isBeyondBounds = chance.isTrue(0.12) && !isOneMachine;
  const kinds = drawKinds(chance, isBeyondBounds).map((kind) => SUBSTITUTES[store]?.[kind] ?? kind);
  const isLong = chance.isTrue(0.25);
  const faultyMs = Math.round(ttlMs * (isLong ? chance.between(3, 6) : chance.between(1.5, 2.5)));
  // On a slow network, a renewal is sent before the previous one is answered.
  const roundTripMs = Math.round(ttlMs * chance.pick([0.1, 0.1, 0.27]));
  const storeLagMs = STORE_LAG_MS[store] ?? 0;
  const timing = { ttlMs, roundTripMs, clockErrorMs: Math.ceil(ttlMs * drift) };
  return {
    seed,
    store,
    programs,
    ...timing,
    storeLagMs,
    faultyMs,
    faultsMin: FAULTS_MIN,
    calmMs: settlingMs({ ttlMs, storeLagMs }) + 3_200,
    rates: drawRates(chance, programs + 1, drift).map((rate) => (isOneMachine ? 1 : rate)),
    kinds,
    isBeyondBounds,
    weather: drawWeather(chance, kinds, roundTripMs),
    faults: drawFaults(chance, kinds, { ttlMs, storeLagMs, programs, store }),
  };
}

/**
 * What to leave out of a seed's plan: found by shrinking, and given on the command line of a
 * replay.
 */
export interface Changes {
  readonly without: readonly FaultKind[];
  /** Indexes of the planned faults to keep, in the seed's original plan. @default all */
  readonly keep?: readonly number[] | undefined;
  readonly programs?: number | undefined;
  /** Begin the calm phase here, however few faults there were. */
  readonly calmAt?: number | undefined;
}

export const NO_CHANGES: Changes = { without: [] };

export function applyChanges(plan: Plan, changes: Changes): Plan {
  const isLeftOut = (kind: FaultKind): boolean => changes.without.includes(kind);
  const { weather } = plan;
  return {
    ...plan,
    programs: changes.programs ?? plan.programs,
    faultyMs: changes.calmAt ?? plan.faultyMs,
    faultsMin: changes.calmAt === undefined ? plan.faultsMin : 0,
    kinds: plan.kinds.filter((kind) => !isLeftOut(kind)),
    faults: plan.faults.filter(
      ({ kind }, index) => !isLeftOut(kind) && (changes.keep?.includes(index) ?? true),
    ),
    weather: {
      ...weather,
      loss: isLeftOut("loss") ? 0 : weather.loss,
      duplicate: isLeftOut("duplicate") ? 0 : weather.duplicate,
      slow: isLeftOut("slow") ? 0 : weather.slow,
      veryLate: isLeftOut("very late") ? 0 : weather.veryLate,
    },
  };
}

function drawKinds(chance: Chance, isBeyondBounds: boolean): FaultKind[] {
  const all: FaultKind[] = [...MESSAGE_FAULTS, ...PLANNED_FAULTS];
  const drawn = all.filter((kind) => chance.isTrue(kind === BEFORE_WRITE ? 0.9 : 0.65));
  // A run lasts a few ttl and has five to ten planned faults per ttl. Only message faults can bring
  // the number to a hundred.
  while (drawn.filter(isMessageFault).length < 2) {
    const kind = chance.pick(MESSAGE_FAULTS.slice(0, 3));
    if (!drawn.includes(kind)) drawn.push(kind);
  }
  while (drawn.length < KINDS_MIN) {
    const kind = chance.pick(all);
    if (!drawn.includes(kind)) drawn.push(kind);
  }
  return isBeyondBounds ? [...drawn, ...BEYOND_FAULTS] : drawn;
}

function isMessageFault(kind: FaultKind): boolean {
  return (MESSAGE_FAULTS as readonly FaultKind[]).includes(kind);
}

/** Draws rates close to the clock error that the holders assume, but never beyond it. */
function drawRates(chance: Chance, count: number, drift: number): number[] {
  const store = 1 + chance.between(-0.001, 0.001);
  const others = Array.from({ length: count - 1 }, () => {
    const part = chance.pick([-0.95, -0.95, -0.4, 0, 0.4, 0.95]);
    return store * (1 + part * drift);
  });
  return [store, ...others];
}

function drawWeather(chance: Chance, kinds: readonly FaultKind[], roundTripMs: number): Weather {
  const drawn = (kind: FaultKind, most: number): number =>
    kinds.includes(kind) ? chance.between(most / 2, most) : 0;
  return {
    loss: drawn("loss", 0.12),
    duplicate: drawn("duplicate", 0.15),
    slow: drawn("slow", 0.3),
    veryLate: drawn("very late", 0.02),
    slowMs: roundTripMs * chance.between(0.5, 2),
    usualMs: USUAL_MS,
  };
}

function drawFaults(
  chance: Chance,
  kinds: readonly FaultKind[],
  sizes: Pick<Plan, "ttlMs" | "storeLagMs" | "programs" | "store">,
): PlannedFault[] {
  const { ttlMs, storeLagMs, programs, store } = sizes;
  const gapTtls = GAP_TTLS_MAX[store] ?? 0.35;
  const planned = kinds.filter((kind) => !isMessageFault(kind));
  const faults: PlannedFault[] = [];
  // The first grants happen before the first fault.
  let at = ttlMs / 4;
  /** Long enough for the lease to expire and for another program to take over and write. */
  const takeoverMs = (): number => storeLagMs + ttlMs * chance.between(1.05, 1.3);
  // This fault waits for a suitable write, so every program gets one from the beginning.
  if (kinds.includes(BEFORE_WRITE)) {
    planned.push(BEFORE_WRITE, BEFORE_WRITE);
    for (let target = 0; target < programs; target += 1)
      faults.push({ at, kind: BEFORE_WRITE, target, ms: takeoverMs() });
  }
  for (;;) {
    at += chance.between(0.02, gapTtls) * ttlMs;
    if (at >= FAULTY_TTLS_MAX * ttlMs) return faults;
    const kind = chance.pick(planned);
    const target = chance.below(programs);
    const isShort = chance.isTrue(kind === BEFORE_WRITE ? 0.2 : 0.5);
    const usualMs = ttlMs * (isShort ? chance.between(0.05, 0.9) : chance.between(0.9, 2.2));
    const ms = kind === BEFORE_WRITE && !isShort ? takeoverMs() : usualMs;
    faults.push({ at, kind, target, ms });
  }
}
