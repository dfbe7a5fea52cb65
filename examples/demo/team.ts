// Manages the worker processes: starts, stops, resumes and ends them, and keeps their reports in
// order of arrival. If a worker dies unexpectedly, every wait fails, so that the demo cannot hang.

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Clock } from "../../src/async/clock.ts";
import type { Order, Report, ReportOf, Seen } from "./messages.ts";

const EXIT_LIMIT_MS = 3_000;

export interface Filter {
  readonly from?: string;
  /** Only reports from this index of `seen` on. */
  readonly since: number;
  readonly limitMs: number;
}

interface Member {
  readonly child: ChildProcess;
  readonly exited: Promise<void>;
  /** The worker is expected to exit. */
  mayExit: boolean;
}

export class Team {
  /** Every report so far, in order of arrival. */
  readonly seen: Seen[] = [];
  readonly #clock: Clock;
  readonly #folder: string;
  readonly #onSeen: (seen: Seen) => void;
  readonly #members = new Map<string, Member>();
  readonly #waiting = new Set<() => void>();
  #failure: Error | undefined;

  constructor(parts: { clock: Clock; folder: string; onSeen: (seen: Seen) => void }) {
    this.#clock = parts.clock;
    this.#folder = parts.folder;
    this.#onSeen = parts.onSeen;
  }

  /** The worker that reported the latest grant. */
  get holder(): string {
    const grant = this.seen.findLast((seen) => seen.report.type === "granted");
    if (grant === undefined) throw new Error("no worker has held the lease yet");
    return grant.from;
  }

  start(name: string): void {
    // The compiled worker is next to this file's own output; see start.mjs.
    const program = fileURLToPath(new URL("./worker.mjs", import.meta.url));
    const stdio = ["ignore", "inherit", "inherit", "ipc"] as const;
    const child = fork(program, [name, this.#folder], { stdio: [...stdio] });
    const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    const member: Member = { child, exited, mayExit: false };
    this.#members.set(name, member);
    child.on("message", (report: Report) => this.#receive(name, report));
    child.on("error", (error) => this.#fail(`${name}: ${error.message}`));
    child.once("exit", (code, signal) => {
      if (this.#members.get(name) === member) this.#members.delete(name);
      if (!member.mayExit)
        this.#fail(`${name} ended unexpectedly (${signal ?? `exit code ${code}`}).`);
    });
  }

  order(name: string, order: Order): void {
    const { child } = this.#member(name);
    // An error here means that the worker is exiting, which the exit event reports.
    if (child.connected) child.send(order, () => undefined);
  }

  /** Sends SIGSTOP, which the process cannot notice. */
  stop(name: string): void {
    const { child } = this.#member(name);
    // A stopped worker cannot exit by itself. If this process dies, the others kill it.
    for (const other of this.#members.keys()) {
      if (other !== name) this.order(other, { type: "stopped", pid: child.pid });
    }
    child.kill("SIGSTOP");
  }

  resume(name: string): void {
    this.#member(name).child.kill("SIGCONT");
    for (const other of this.#members.keys())
      this.order(other, { type: "stopped", pid: undefined });
  }

  /** Sends SIGTERM, a planned shutdown. Resolves when the process has exited. */
  shutDown(name: string): Promise<void> {
    const member = this.#member(name);
    member.mayExit = true;
    member.child.kill("SIGTERM");
    return member.exited;
  }

  /** Resolves with the first report of this type that matches, even if it arrived before. */
  until<Type extends Report["type"]>(type: Type, filter: Filter): Promise<Seen<ReportOf<Type>>> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        timer.cancel();
        this.#waiting.delete(check);
      };
      const check = (): void => {
        const found = this.seen.find(
          (seen, at) => at >= filter.since && matches(seen, type, filter.from),
        );
        if (found === undefined && this.#failure === undefined) return;
        end();
        if (found === undefined) reject(this.#failure);
        else resolve(found as Seen<ReportOf<Type>>);
      };
      const giveUp = (): void => {
        end();
        const who = filter.from ?? "any worker";
        reject(new Error(`no "${type}" report from ${who} within ${filter.limitMs} ms.`));
      };
      const timer = this.#clock.setTimer(giveUp, filter.limitMs, { keepAlive: true });
      this.#waiting.add(check);
      check();
    });
  }

  /** Asks all workers to exit, and kills those that do not. */
  async endAll(): Promise<void> {
    for (const [name, member] of this.#members) {
      member.mayExit = true;
      this.order(name, { type: "leave" });
    }
    const all = Promise.all([...this.#members.values()].map((member) => member.exited));
    let timer: { cancel(): void } | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = this.#clock.setTimer(resolve, EXIT_LIMIT_MS, { keepAlive: true });
    });
    await Promise.race([all, limit]);
    timer?.cancel();
    await this.kill();
  }

  /** Kills all workers. SIGKILL also ends a process that is stopped. */
  async kill(): Promise<void> {
    const members = [...this.#members.values()];
    for (const member of members) {
      member.mayExit = true;
      member.child.kill("SIGKILL");
    }
    await Promise.all(members.map((member) => member.exited));
  }

  #member(name: string): Member {
    const member = this.#members.get(name);
    if (member === undefined) throw this.#failure ?? new Error(`${name} is not running.`);
    return member;
  }

  #receive(from: string, report: Report): void {
    const seen: Seen = { from, atMs: this.#clock.now(), report };
    this.seen.push(seen);
    this.#onSeen(seen);
    if (report.type === "failed") this.#fail(`${from} failed: ${report.reason}`);
    else this.#checkAll();
  }

  #fail(reason: string): void {
    this.#failure ??= new Error(reason);
    this.#checkAll();
  }

  #checkAll(): void {
    for (const check of [...this.#waiting]) check();
  }
}

function matches(seen: Seen, type: Report["type"], from: string | undefined): boolean {
  return seen.report.type === type && (from === undefined || seen.from === from);
}
