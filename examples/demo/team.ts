// The worker processes as the director sees them: starts them, stops and resumes them, keeps every report in order of
// arrival, and ends them whatever happens. A worker that dies unasked fails every wait, so that the demo cannot hang.

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Clock } from "../../src/async/clock.ts";
import type { Order, Report, ReportOf, Seen } from "./messages.ts";

const DISMISS_LIMIT_MS = 3_000;

export interface Wish {
  readonly from?: string;
  /** Only reports from this position of `seen` on. */
  readonly since: number;
  readonly limitMs: number;
}

interface Member {
  readonly child: ChildProcess;
  readonly exited: Promise<void>;
  /** Its end is part of the play. */
  dismissed: boolean;
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

  /** Who reported the newest grant. */
  get holder(): string {
    const grant = this.seen.findLast((seen) => seen.report.type === "granted");
    if (grant === undefined) throw new Error("nobody has held the lease yet");
    return grant.from;
  }

  start(name: string): void {
    // The worker inherits `--import tsx` from this process.
    const program = fileURLToPath(new URL("./worker.ts", import.meta.url));
    const stdio = ["ignore", "inherit", "inherit", "ipc"] as const;
    const child = fork(program, [name, this.#folder], { stdio: [...stdio] });
    const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    const member: Member = { child, exited, dismissed: false };
    this.#members.set(name, member);
    child.on("message", (report: Report) => this.#receive(name, report));
    child.on("error", (error) => this.#fail(`${name}: ${error.message}`));
    child.once("exit", (code, signal) => {
      if (this.#members.get(name) === member) this.#members.delete(name);
      if (!member.dismissed)
        this.#fail(`${name} ended unasked (${signal ?? `exit code ${code}`}).`);
    });
  }

  order(name: string, order: Order): void {
    const { child } = this.#member(name);
    // An error here means that the worker is ending; its exit tells more.
    if (child.connected) child.send(order, () => undefined);
  }

  /** SIGSTOP: the process stands still wherever it is, and cannot notice. */
  stop(name: string): void {
    const { child } = this.#member(name);
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

  /** SIGTERM: a planned shutdown. Resolves when the process is gone. */
  shutDown(name: string): Promise<void> {
    const member = this.#member(name);
    member.dismissed = true;
    member.child.kill("SIGTERM");
    return member.exited;
  }

  /** The first report of that type that fits the wish, whether it has arrived yet or not. */
  until<Type extends Report["type"]>(type: Type, wish: Wish): Promise<Seen<ReportOf<Type>>> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        timer.cancel();
        this.#waiting.delete(look);
      };
      const look = (): void => {
        const found = this.seen.find((seen, at) => at >= wish.since && fits(seen, type, wish.from));
        if (found === undefined && this.#failure === undefined) return;
        end();
        if (found === undefined) reject(this.#failure);
        else resolve(found as Seen<ReportOf<Type>>);
      };
      const giveUp = (): void => {
        end();
        const who = wish.from ?? "any worker";
        reject(new Error(`no "${type}" came from ${who} within ${wish.limitMs} ms.`));
      };
      const timer = this.#clock.setTimer(giveUp, wish.limitMs, { keepAlive: true });
      this.#waiting.add(look);
      look();
    });
  }

  /** The end of the play: all leave by themselves; whoever does not is killed. */
  async dismiss(): Promise<void> {
    for (const [name, member] of this.#members) {
      member.dismissed = true;
      this.order(name, { type: "leave" });
    }
    const all = Promise.all([...this.#members.values()].map((member) => member.exited));
    let timer: { cancel(): void } | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = this.#clock.setTimer(resolve, DISMISS_LIMIT_MS, { keepAlive: true });
    });
    await Promise.race([all, limit]);
    timer?.cancel();
    await this.kill();
  }

  /** At once and by force. SIGKILL also ends a process that is stopped. */
  async kill(): Promise<void> {
    const members = [...this.#members.values()];
    for (const member of members) {
      member.dismissed = true;
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
    else this.#lookAll();
  }

  #fail(reason: string): void {
    this.#failure ??= new Error(reason);
    this.#lookAll();
  }

  #lookAll(): void {
    for (const look of [...this.#waiting]) look();
  }
}

function fits(seen: Seen, type: Report["type"], from: string | undefined): boolean {
  return seen.report.type === type && (from === undefined || seen.from === from);
}
