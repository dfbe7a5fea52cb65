// The world of one take: machines with their clocks, the memory store reached over the network, a
// ledger, and the planned faults of the story. The real Tenure runs on it, and so does the plain
// lock that it is compared with.

import { isTenureError } from "../../src/core/errors.ts";
import type { Lease } from "../../src/holder/lease.ts";
import type { AcquireOptions } from "../../src/holder/options.ts";
import type { Store } from "../../src/stores/contract.ts";
import { MemoryBackend } from "../../src/stores/memory/index.ts";
import { createTenure, type Tenure } from "../../src/tenure.ts";
import { memoryModel } from "../models/memory/index.ts";
import type { StoreModel } from "../models/model.ts";
import { watchedStore } from "../models/watched-store.ts";
import { Chance } from "../world/chance.ts";
import { HostClocks } from "../world/host-clocks.ts";
import { FINE, Network } from "../world/network.ts";
import { Program } from "../world/program.ts";
import { Schedule } from "../world/schedule.ts";
import { Ledger } from "./ledger.ts";
import type { Scene } from "./scene.ts";
import { Tale } from "./tale.ts";

/** The maximum duration of a message within a data centre. */
const MESSAGE_MS = 6;

export class Stage {
  readonly resource: string;
  readonly schedule: Schedule = new Schedule();
  readonly tale: Tale = new Tale(() => this.schedule.now);
  readonly network: Network;
  readonly ledger: Ledger;
  readonly #chance: Chance;
  readonly #model: StoreModel;
  readonly #weather: { -readonly [Name in keyof typeof FINE]: number };
  readonly #programs = new Map<string, Program>();
  /** Functions that record a program's deadline again, after a clock was changed. */
  readonly #deadlines = new Map<string, () => void>();

  constructor(scene: Scene) {
    const { schedule, tale: trace } = this;
    this.resource = scene.resource;
    // The same random numbers in every take. Only the programs differ.
    this.#chance = new Chance(`scene ${scene.name}`);
    this.#weather = { ...FINE, usualMs: MESSAGE_MS };
    const chance = this.#chance.stream("network");
    this.network = new Network({ schedule, trace, chance, weather: this.#weather });
    const backend = new MemoryBackend();
    backend.entries.set(scene.resource, {
      resource: scene.resource,
      token: scene.lastToken,
      lastAttempt: undefined,
      held: undefined,
      queue: [],
    });
    const machine = (name: string): Program => this.#machine(name);
    this.#model = memoryModel({ schedule, network: this.network, trace, machine }, backend);
    this.ledger = new Ledger({
      network: this.network,
      tale: this.tale,
      resource: scene.resource,
      program: this.#machine("ledger"),
      now: () => schedule.now,
    });
    for (const name of scene.machines) this.#programs.set(name, this.#machine(name));
  }

  program(name: string): Program {
    const program = this.#programs.get(name);
    if (program === undefined) throw new Error(`The scene has no machine ${name}.`);
    return program;
  }

  at(instant: number, run: () => void): void {
    this.schedule.at(instant, run);
  }

  /** Sleeps until this true instant, by a timer of the program. */
  async until(program: Program, instant: number): Promise<void> {
    await program.sleep(Math.max(0, instant - this.schedule.now));
  }

  async store(program: Program): Promise<Store> {
    const { clock, clocks, chance: random } = program;
    const parts = { clock, hostClock: clocks.hostClock, random, warn: () => undefined };
    const store = await this.#model.open(program)(parts);
    return watchedStore(store, program, this.tale);
  }

  async tenure(program: Program, defaults: AcquireOptions): Promise<Tenure> {
    const { clock, name, chance: random } = program;
    const store = await this.store(program);
    const warn = (text: string): void => this.tale.record(name, { kind: "says", text });
    return createTenure({ store, clock, random, holderId: name, keepAlive: false, defaults, warn });
  }

  /**
   * Records what the holder of a Tenure lease knows: that it holds the lease, until when, and how
   * it ended.
   */
  follow(program: Program, lease: Lease): void {
    const { name: who } = program;
    this.tale.record(who, { kind: "holds", token: lease.token, checksDeadline: true });
    this.followDeadline(program, () => program.clocks.trueInstant(lease.safeUntil));
    const { signal } = lease;
    const over = (): void => {
      const { reason } = signal.reason as { readonly reason: string };
      const isPlanned = reason === "released";
      const why = isPlanned
        ? "releases the lease"
        : `is notified that the lease is lost (${reason})`;
      this.stopped(program, why, isPlanned);
    };
    signal.addEventListener("abort", over, { once: true });
  }

  /**
   * Records the deadline now, after every renewal and after every change of a clock, until
   * `stopped` is called.
   */
  followDeadline(program: Program, read: () => number): void {
    let lastRecorded: number | undefined;
    const recordDeadline = (): void => {
      const until = read();
      if (this.#deadlines.get(program.name) !== recordDeadline || !Number.isFinite(until)) return;
      if (until !== lastRecorded) this.tale.record(program.name, { kind: "deadline", until });
      lastRecorded = until;
    };
    this.#deadlines.set(program.name, recordDeadline);
    // Read after the holder has processed the answer.
    this.tale.onRenewal(program.name, () => this.schedule.after(0, recordDeadline));
    recordDeadline();
  }

  stopped(program: Program, why: string, isPlanned: boolean): void {
    this.#deadlines.delete(program.name);
    this.tale.record(program.name, { kind: "stops", why, isPlanned });
  }

  mayAct(program: Program, lease: Lease): boolean {
    try {
      lease.check();
      return true;
    } catch (error) {
      this.heldBack(program, error);
      return false;
    }
  }

  /** An error of check() keeps a program from acting. Any other error is a bug of the scene. */
  heldBack(program: Program, error: unknown): void {
    if (!isTenureError(error)) throw error;
    this.tale.record(program.name, { kind: "heldBack", why: `check() says no: ${error.code}` });
  }

  says(who: string, text: string, mark?: string, ms?: number): void {
    this.tale.record(who, { kind: "says", text, mark, ms });
  }

  /** Stops this process immediately. What it sends in the same turn leaves when it resumes. */
  pauseNow(program: Program, ms: number, label: string): void {
    this.#band(program.name, ms, label);
    program.stop();
    this.schedule.after(ms, () => program.resume());
  }

  /**
   * Stops the whole machine. If it is suspended, its boot clock keeps running; if it is frozen from
   * outside, no clock does.
   */
  stopMachine(name: string, how: "suspended" | "frozen", span: Span): void {
    const program = this.program(name);
    this.at(span.from, () => {
      this.#band(name, span.ms, span.label);
      program.clocks.stop(how);
      program.stop();
      this.schedule.after(span.ms, () => {
        program.clocks.run();
        if (how === "suspended") program.jump();
        program.resume();
        // After the program's first turn, in which it may learn of its loss.
        this.schedule.after(0, () => this.#deadlines.get(name)?.());
      });
    });
  }

  setWall(name: string, at: number, byMs: number): void {
    this.at(at, () => {
      this.program(name).clocks.stepWall(byMs);
      this.#deadlines.get(name)?.();
    });
  }

  /** Drops everything between this program and the store. */
  cutFromStore(name: string, span: Span): void {
    const servers = this.#model.servers.map(({ program }) => program.name);
    this.at(span.from, () => {
      this.#band(name, span.ms, span.label);
      for (const server of servers) {
        this.network.cut(name, server);
        this.network.cut(server, name);
      }
    });
    this.at(span.from + span.ms, () => {
      for (const server of servers) {
        this.network.heal(name, server);
        this.network.heal(server, name);
      }
    });
  }

  /** Keeps what this program sends to the ledger in the socket's buffer. */
  stuckBuffer(name: string, span: Span): void {
    const ledger = this.ledger.program.name;
    this.at(span.from, () => {
      this.#band(name, span.ms, span.label);
      this.network.cut(name, ledger);
    });
    this.at(span.from + span.ms, () => this.network.heal(name, ledger));
  }

  /** Loses every message of every machine. */
  dropAll(span: Span): void {
    this.at(span.from, () => {
      this.#band("network", span.ms, span.label);
      this.#weather.loss = 1;
    });
    this.at(span.from + span.ms, () => {
      this.#weather.loss = 0;
    });
  }

  #band(who: string, ms: number, label: string): void {
    this.tale.record(who, { kind: "band", label, until: this.schedule.now + ms });
  }

  #machine(name: string): Program {
    const { schedule } = this;
    const chance = this.#chance.stream(name);
    const clocks = new HostClocks(schedule, { rate: 1, offsetMs: chance.between(1e3, 1e6), name });
    return new Program({ name, schedule, clocks, chance });
  }
}

export interface Span {
  readonly from: number;
  readonly ms: number;
  readonly label: string;
}
