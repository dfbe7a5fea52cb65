// From a seed to everything that is decided before the world begins: sizes, durations, clocks, which faults are on, and
// when each of the large ones comes. A plan is plain data: it can be printed, and shrunk by taking things out of it.

import { Chance } from "../world/chance.ts";
import type { Weather } from "../world/network.ts";

/** Faults that hit single messages. */
const MESSAGE_FAULTS = ["loss", "duplicate", "slow", "very late"] as const;
/** Faults that come at an instant and, mostly, end at another. */
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
/** A store in a file of one machine has no network before it and no clock that differs; other things happen there. */
const FILE_FAULTS = ["stopped while writing", "killed while writing", "reboot"] as const;
const BEFORE_WRITE = "pause before a write";
/** Outside of the bounds that a lease may count on: only the guard can help then. */
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
  /** Which of the programs, or of the store's machines, or of the resources. */
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
  /** How much later than the ttl that was asked the store lets go, whole seconds and its own rounds included. */
  readonly storeLagMs: number;
  /** Of the store's machine first, then of each program's; 1 is true time. */
  readonly rates: readonly number[];
  /** Faults come at least for so long; afterwards the calm begins as soon as there were enough of them. */
  readonly faultyMs: number;
  /** So many faults make a day; 0 for one that was cut short to be looked at. */
  readonly faultsMin: number;
  /** The evening comes when everybody has got on again; where scheduled runs are judged, not before this. */
  readonly calmMs: number;
  readonly kinds: readonly FaultKind[];
  /** The bounds are broken on purpose: S3 and acts without a guard are not judged. */
  readonly isBeyondBounds: boolean;
  readonly weather: Weather;
  readonly faults: readonly PlannedFault[];
}

/** So long after the faults, what began in them can still end: leases of the dead run out, the store lets go. */
export function settledMs({ ttlMs, storeLagMs }: Pick<Plan, "ttlMs" | "storeLagMs">): number {
  return 1.5 * (ttlMs + storeLagMs);
}

/** As often as the availability inequality allows for, where that is more than usual: a lost renewal must not lose the lease. */
export function renewEveryMs(plan: Pick<Plan, "ttlMs" | "clockErrorMs" | "roundTripMs">): number {
  const { ttlMs, clockErrorMs, roundTripMs } = plan;
  return Math.min(ttlMs / 3, (ttlMs - clockErrorMs - 2 * roundTripMs) / 2);
}

const KINDS_MIN = 8;
const FAULTS_MIN = 100;
/** Fewer prove nothing. */
export const GRANTS_MIN = 10;
/** A day that does not come to its faults, because everybody is stopped or cut off, ends after so many ttl. */
export const LONGEST_DAY_TTLS = 54;
const USUAL_MS = 4;
const REPLACED: Readonly<Record<string, Partial<Record<FaultKind, FaultKind>>>> = {
  sqlite: {
    "cut requests": "stopped while writing",
    "cut answers": "killed while writing",
    "cut both ways": "reboot",
    "clock rate": "suspend",
    "store paused": "stopped while writing",
  },
};
/** Between two planned faults, where there are few messages that something could happen to. */
const LONGEST_GAP_TTLS: Readonly<Record<string, number>> = { sqlite: 0.2, redis: 0.2 };
const STORE_LAG_MS: Readonly<Record<string, number>> = { etcd: 2_500, sqlite: 20, zookeeper: 900 };

export function planOf(seed: number, store: string): Plan {
  const chance = new Chance(`${seed}`).stream("plan");
  const programs = chance.pick([2, 2, 3, 3, 4]);
  const ttlMs = Math.round(chance.between(1_400, 2_400));
  const drift = chance.pick([0.01, 0.02, 0.05]);
  const isOneMachine = store === "sqlite";
  const isBeyondBounds = chance.isTrue(0.12) && !isOneMachine;
  const kinds = drawKinds(chance, isBeyondBounds).map((kind) => REPLACED[store]?.[kind] ?? kind);
  const isLongDay = chance.isTrue(0.25);
  const faultyMs = Math.round(
    ttlMs * (isLongDay ? chance.between(3, 6) : chance.between(1.5, 2.5)),
  );
  // A slow network: then a renewal is sent before the one before it is answered.
  const roundTripMs = Math.round(ttlMs * chance.pick([0.1, 0.1, 0.27]));
  const storeLagMs = STORE_LAG_MS[store] ?? 0;
  const timing = { ttlMs, roundTripMs, clockErrorMs: Math.ceil(ttlMs * drift) };
  return {
    ...{ seed, store, programs, ...timing, storeLagMs, faultyMs, faultsMin: FAULTS_MIN },
    calmMs: settledMs({ ttlMs, storeLagMs }) + 3_200,
    rates: drawRates(chance, programs + 1, drift).map((rate) => (isOneMachine ? 1 : rate)),
    ...{ kinds, isBeyondBounds },
    weather: drawWeather(chance, kinds, roundTripMs),
    faults: drawFaults(chance, kinds, { ttlMs, storeLagMs, programs, store }),
  };
}

/** A seed's day with things left out of it: what shrinking finds, and what a replay is told. */
export interface Changes {
  readonly without: readonly FaultKind[];
  /** Of the planned faults only these, by their place in the seed's own plan; undefined: all. */
  readonly keep?: readonly number[] | undefined;
  readonly programs?: number | undefined;
  /** The calm begins here, however few faults there were. */
  readonly calmAt?: number | undefined;
}

export const UNCHANGED: Changes = { without: [] };

export function changed(plan: Plan, changes: Changes): Plan {
  const is = (kind: FaultKind): boolean => changes.without.includes(kind);
  const { weather } = plan;
  return {
    ...plan,
    programs: changes.programs ?? plan.programs,
    faultyMs: changes.calmAt ?? plan.faultyMs,
    faultsMin: changes.calmAt === undefined ? plan.faultsMin : 0,
    kinds: plan.kinds.filter((kind) => !is(kind)),
    faults: plan.faults.filter(
      ({ kind }, index) => !is(kind) && (changes.keep?.includes(index) ?? true),
    ),
    weather: {
      ...weather,
      loss: is("loss") ? 0 : weather.loss,
      duplicate: is("duplicate") ? 0 : weather.duplicate,
      slow: is("slow") ? 0 : weather.slow,
      veryLate: is("very late") ? 0 : weather.veryLate,
    },
  };
}

function drawKinds(chance: Chance, isBeyondBounds: boolean): FaultKind[] {
  const all: FaultKind[] = [...MESSAGE_FAULTS, ...PLANNED_FAULTS];
  const drawn = all.filter((kind) => chance.isTrue(kind === BEFORE_WRITE ? 0.9 : 0.65));
  // Large faults come every few seconds; it takes the small ones for a hundred in a day.
  while (drawn.filter(hitsMessages).length < 2) {
    const kind = chance.pick(MESSAGE_FAULTS.slice(0, 3));
    if (!drawn.includes(kind)) drawn.push(kind);
  }
  while (drawn.length < KINDS_MIN) {
    const kind = chance.pick(all);
    if (!drawn.includes(kind)) drawn.push(kind);
  }
  return isBeyondBounds ? [...drawn, ...BEYOND_FAULTS] : drawn;
}

function hitsMessages(kind: FaultKind): boolean {
  return (MESSAGE_FAULTS as readonly FaultKind[]).includes(kind);
}

/** Close to the bound that the holders were told, on either side of it, never outside. */
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
  const gapTtls = LONGEST_GAP_TTLS[store] ?? 0.35;
  const planned = kinds.filter((kind) => !hitsMessages(kind));
  const faults: PlannedFault[] = [];
  // The first grants happen before the first fault.
  let at = ttlMs / 4;
  /** Long enough for the store to let go, for another to take over, and to write. */
  const outlastingMs = (): number => storeLagMs + ttlMs * chance.between(1.05, 1.3);
  // It waits for a write that fits, and until then nothing has happened: so it is there for everybody from the beginning.
  if (kinds.includes(BEFORE_WRITE)) {
    planned.push(BEFORE_WRITE, BEFORE_WRITE);
    for (let target = 0; target < programs; target += 1)
      faults.push({ at, kind: BEFORE_WRITE, target, ms: outlastingMs() });
  }
  for (;;) {
    at += chance.between(0.02, gapTtls) * ttlMs;
    if (at >= LONGEST_DAY_TTLS * ttlMs) return faults;
    const kind = chance.pick(planned);
    const target = chance.below(programs);
    const isShort = chance.isTrue(kind === BEFORE_WRITE ? 0.2 : 0.5);
    const usualMs = ttlMs * (isShort ? chance.between(0.05, 0.9) : chance.between(0.9, 2.2));
    const ms = kind === BEFORE_WRITE && !isShort ? outlastingMs() : usualMs;
    faults.push({ at, kind, target, ms });
  }
}
