// The surroundings of one fault trial: its history, contenders, proxies, and servers if it needs to
// stop them. All of them are removed when the trial ends, even if it fails. Trials run
// concurrently.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { AcquireOptions } from "../../../src/index.ts";
import { startProxy, type TcpProxy } from "../../servers/proxy.ts";
import { Child, type Told } from "../process/child.ts";
import type { FaultEngine } from "./fault-engine.ts";
import { History, summarize } from "./history.ts";
import { type Expectation, judge } from "./history-checks.ts";

const WORKER = new URL("../../faults/workers/contender.mjs", import.meta.url);
/** The number of acts of the first holder before every fault. */
export const ACTS = 100;
const TRIES_MAX = 3;
/**
 * How many contenders of a file start at once. A starting process keeps a core busy for most of a
 * second: with twenty of them on two cores, the last one exceeds its connect limit of 5 s.
 */
const STARTS_AT_ONCE = 2;
const turns: Promise<unknown>[] = [];
let starts = 0;
let trials = 0;

export interface Held {
  readonly token: bigint;
  readonly at: number;
}

export interface CompeteOptions {
  /** Compete again after every loss; an election does so anyway. @default false */
  readonly again?: boolean | undefined;
  /**
   * Be elected instead of acquiring. With `ready: false`, prepare fails, and with `hangs`, lead
   * does not return; both until recover().
   */
  readonly election?: { readonly ready?: boolean; readonly hangs?: boolean } | undefined;
  /** More options for acquire(), such as other timing or acting while in doubt. */
  readonly options?: AcquireOptions | undefined;
}

/** How the first contender competes, and how the second does. */
export interface StandOffOptions extends CompeteOptions {
  readonly second?: CompeteOptions | undefined;
}

/** A process that competes for the resources of trials. */
export class Contender {
  readonly name: string;
  readonly child: Child;
  #calls = 0;

  constructor(name: string, child: Child) {
    this.name = name;
    this.child = child;
  }

  async call(name: string, request: object): Promise<Told> {
    this.#calls += 1;
    const id = this.#calls;
    this.child.say({ id, do: name, ...request });
    const answer = await this.child.heard("answer", (told) => told.id === id);
    if (answer.error !== undefined)
      throw new Error(`${this.name} could not ${name}: ${JSON.stringify(answer.error)}`);
    return answer;
  }

  compete(trial: Trial, how: CompeteOptions = {}): Promise<Told> {
    const { again = false, options = {}, election } = how;
    const { resource, guard, history } = trial;
    const place = { resource, guard, history: history.file, again, options };
    return election === undefined
      ? this.call("compete", place)
      : this.call("campaign", { ...place, ...election });
  }

  async recover({ resource }: Trial): Promise<void> {
    await this.call("recover", { resource });
  }

  /** The first event of this type from its election after the given time. */
  event({ resource }: Trial, type: string, after = 0): Promise<Told> {
    const fits = (told: Told): boolean =>
      told.resource === resource && told.type === type && told.at > after;
    return this.child.heard("election", fits);
  }

  /** The first grant with a token above `above`. The guard has been advanced by then. */
  async granted({ resource }: Trial, above = 0n): Promise<Held> {
    const told = await this.child.heard(
      "granted",
      (each) => each.resource === resource && readToken(each) > above,
    );
    return { token: readToken(told), at: told.at };
  }

  /** Resolves after this many more acts. */
  async acts({ resource }: Trial, times: number): Promise<void> {
    await this.call("act", { resource, times });
  }

  /** When it learned that this term was over, and why. */
  told({ resource }: Trial, held: Held): Promise<Told> {
    return this.child.heard(
      "told",
      (each) => each.resource === resource && readToken(each) === held.token,
    );
  }

  hasBeenTold({ resource }: Trial, held: Held): boolean {
    return this.child.told.some(
      (each) =>
        each.event === "told" && each.resource === resource && readToken(each) === held.token,
    );
  }

  async release({ resource }: Trial): Promise<void> {
    expect((await this.call("release", { resource })).result).toBe("released");
  }

  /** Writes with the token of an old term, without checking the lease. */
  async lateWrite({ resource }: Trial, held: Held): Promise<unknown> {
    return (await this.call("lateWrite", { resource, token: String(held.token) })).outcome;
  }
}

/** One resource and its history. */
export interface Trial {
  readonly resource: string;
  readonly history: History;
  /** The file of the guarded resource. */
  readonly guard: string;
}

/** The state of a trial before its fault. */
export interface StandOff {
  readonly trial: Trial;
  readonly held: Held;
}

export class Arena implements AsyncDisposable {
  readonly #engine: Pick<FaultEngine, "timing">;
  readonly #folder = mkdtempSync(join(tmpdir(), "tenure-faults-"));
  readonly #children: Child[] = [];
  readonly #others: AsyncDisposable[] = [];

  constructor(engine: Pick<FaultEngine, "timing">) {
    this.#engine = engine;
  }

  trial(): Trial {
    trials += 1;
    const resource = `trial-${trials}`;
    const history = new History(join(this.#folder, `${resource}.jsonl`));
    return { resource, history, guard: join(this.#folder, `${resource}.db`) };
  }

  /** Starts another worker of the trial. */
  child(script: URL, settings: object): Child {
    const child = new Child(script, settings, {});
    this.#children.push(child);
    return child;
  }

  /** Starts a process that is connected to the store at this address. */
  async contender(
    name: string,
    at: { readonly url: string },
    library?: string,
  ): Promise<Contender> {
    return inTurn(async () => {
      const contender = new Contender(name, this.child(WORKER, { name }));
      const { timing } = this.#engine;
      await contender.call("connect", { url: at.url, library, defaults: timing });
      return contender;
    });
  }

  /**
   * The first contender holds and has acted for a while, the second waits. If a busy machine makes
   * the first lose its lease before any fault, this is tried again on another resource.
   */
  async standOff(
    [first, second]: readonly [Contender, Contender],
    { second: secondOptions, ...options }: StandOffOptions = {},
  ): Promise<StandOff> {
    for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
      const trial = this.trial();
      await first.compete(trial, options);
      const held = await first.granted(trial);
      await second.compete(trial, secondOptions);
      await Promise.race([first.acts(trial, ACTS), first.told(trial, held)]);
      // A random time between two renewals.
      await sleep(Math.random() * this.#engine.timing.renewEveryMs);
      if (!first.hasBeenTold(trial, held)) return { trial, held };
    }
    throw new Error(`This machine lost ${TRIES_MAX} leases in a row without any fault.`);
  }

  async proxy(server: { readonly url: string }): Promise<TcpProxy> {
    const proxy = await startProxy(server);
    this.#others.push(proxy);
    return proxy;
  }

  async server<S extends AsyncDisposable>(start: () => Promise<S>): Promise<S> {
    const server = await start();
    this.#others.push(server);
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#children.map((child) => child.kill()));
    for (const each of this.#others.reverse()) await each[Symbol.asyncDispose]();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Runs the start after the starts before it, STARTS_AT_ONCE at a time. */
function inTurn<T>(start: () => Promise<T>): Promise<T> {
  const turn = starts++ % STARTS_AT_ONCE;
  const started = (turns[turn] ?? Promise.resolve()).then(start);
  turns[turn] = started.catch(() => undefined);
  return started;
}

/**
 * Checks that the history of the trial breaks no invariant, and that enough happened in it to prove
 * that.
 */
export function expectSound({ history }: Trial, expectation: Expectation): void {
  const happenings = history.read();
  const verdict = judge(happenings, expectation);
  expect(verdict, summarize(happenings)).toEqual({ violations: [], invalid: [] });
}

function readToken(told: Told): bigint {
  return BigInt(String(told.token));
}
