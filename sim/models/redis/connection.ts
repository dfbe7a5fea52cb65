// A client's connection, as ioredis behaves with our settings. Commands are answered in order.
// While the connection is down, commands are rejected rather than queued. When it breaks, every
// unanswered command fails, whether it arrived or not, and reconnecting never stops. Underneath is
// TCP: data arrives once and in order, possibly late, or the connection ends.

import type { Timer } from "../../../src/async/clock.ts";
import type { Callee } from "../../world/call.ts";
import type { Network } from "../../world/network.ts";
import type { Program } from "../../world/program.ts";
import type { Schedule } from "../../world/schedule.ts";
import type { Trace } from "../../world/trace.ts";
import type { Answer, Link, RedisServer } from "./server.ts";

export interface ConnectionParts {
  readonly schedule: Schedule;
  readonly network: Network;
  readonly trace: Trace;
  readonly client: Program;
  readonly callee: Callee;
  readonly server: RedisServer;
}

export interface ConnectionEvents {
  onMessage?(channel: string, message: string): void;
  /** Called when the connection is ready again after an interruption. */
  onBack?(): void;
  /**
   * Reports the true instant from which the connection delivers without delay, as far as is known.
   */
  onOrder?(from: number): void;
}

const CONNECT_MS = 2_000;
const RETRY_MAX_MS = 1_000;
const NEVER = Number.POSITIVE_INFINITY;

export class Connection {
  readonly #parts: ConnectionParts;
  readonly #events: ConnectionEvents;
  /** Undefined while no connection is ready. */
  #line: Line | undefined;
  #isClosed = false;

  constructor(parts: ConnectionParts, events: ConnectionEvents = {}) {
    this.#parts = parts;
    this.#events = events;
  }

  /** Rejects if the first attempt fails. Later attempts are repeated until one succeeds. */
  connect(): Promise<void> {
    this.#events.onOrder?.(NEVER);
    return new Promise((resolve, reject) => this.#try(resolve, reject));
  }

  send(words: readonly string[]): Promise<unknown> {
    const line = this.#line;
    if (line === undefined)
      return Promise.reject(
        new Error(this.#isClosed ? "Connection is closed." : "Stream isn't writeable"),
      );
    return new Promise((resolve, reject) => line.send({ words, resolve, reject }));
  }

  reset(): void {
    this.#line?.hangUp();
  }

  close(): void {
    this.#isClosed = true;
    this.#line?.hangUp();
  }

  #try(ready: () => void, failed: (error: Error) => void): void {
    const line = new Line(this.#parts, {
      onReady: () => {
        if (this.#isClosed) {
          line.hangUp();
          return;
        }
        this.#line = line;
        this.#events.onOrder?.(line.inOrderFrom);
        ready();
      },
      onFailed: failed,
      onEnd: () => {
        this.#line = undefined;
        this.#events.onOrder?.(NEVER);
        this.#again(1);
      },
      onMessage: (channel, message) => this.#events.onMessage?.(channel, message),
      onLate: (until) => this.#events.onOrder?.(until),
    });
  }

  #again(times: number): void {
    if (this.#isClosed) return;
    this.#parts.client.clock.setTimer(
      () => {
        if (this.#isClosed) return;
        this.#try(
          () => this.#events.onBack?.(),
          () => this.#again(times + 1),
        );
      },
      Math.min(RETRY_MAX_MS, times * 50),
    );
  }
}

interface Command {
  readonly words: readonly string[];
  resolve(value: unknown): void;
  reject(error: Error): void;
}

interface LineEvents {
  onReady(): void;
  /** The connection never became ready. */
  onFailed(error: Error): void;
  /** The connection had been ready. */
  onEnd(): void;
  onMessage(channel: string, message: string): void;
  /**
   * The connection is ready, but everything on its way arrives only at this instant. It is infinite
   * if the server has ended the connection.
   */
  onLate(until: number): void;
}

/** The commands of one turn leave in one packet. */
interface Packet {
  readonly step: number;
  readonly isHeld: boolean;
  readonly commands: Command[];
}

/** One TCP connection, from its first packet to its end. */
class Line implements Link {
  readonly #parts: ConnectionParts;
  readonly #events: LineEvents;
  readonly #up: (arrive: () => void) => void;
  readonly #down: (arrive: () => void) => void;
  readonly #limit: Timer;
  #state: "connecting" | "ready" | "over" = "connecting";
  /** Unanswered commands, in order. */
  #waiting: Command[] = [];
  #packet: Packet | undefined;
  #inOrderFrom: number;

  constructor(parts: ConnectionParts, events: LineEvents) {
    const { network, client, callee, server } = parts;
    this.#parts = parts;
    this.#events = events;
    const { schedule } = parts;
    this.#inOrderFrom = schedule.now;
    const onLate = (arrivesAt: number): void => this.#late(arrivesAt);
    this.#up = network.openStream(client, callee.program, NEVER, onLate);
    this.#down = network.openStream(callee.program, client, NEVER, onLate);
    const fail = (code: string): void => {
      if (this.#state !== "connecting") return;
      this.#state = "over";
      this.#limit.cancel();
      events.onFailed(Object.assign(new Error(`connect ${code}`), { code }));
    };
    this.#limit = client.clock.setTimer(() => fail("ETIMEDOUT"), CONNECT_MS);
    this.#up(() => {
      if (callee.isDown) {
        this.#down(() => fail("ECONNREFUSED"));
        return;
      }
      server.accept(this);
      this.#down(() => this.#ready());
    });
  }

  get inOrderFrom(): number {
    return Math.max(this.#inOrderFrom, this.#parts.schedule.now);
  }

  get isDead(): boolean {
    return this.#parts.client.isDead;
  }

  send(command: Command): void {
    const { schedule, client } = this.#parts;
    this.#waiting.push(command);
    const packet = this.#packet;
    if (packet?.step === schedule.steps && packet.isHeld === client.isStopped) {
      packet.commands.push(command);
      return;
    }
    const commands = [command];
    this.#packet = { step: schedule.steps, isHeld: client.isStopped, commands };
    this.#up(() => this.#arrived(commands));
  }

  push(channel: string, message: string): void {
    this.#down(() => {
      if (this.#state === "ready") this.#events.onMessage(channel, message);
    });
  }

  /** Called by the server. */
  end(): void {
    this.#late(NEVER);
    this.#down(() => this.#over());
  }

  /** Called by the client. Data sent before still arrives. */
  hangUp(): void {
    this.#up(() => this.#parts.server.drop(this));
    this.#over();
  }

  #late(until: number): void {
    if (until <= this.#inOrderFrom) return;
    this.#inOrderFrom = until;
    if (this.#state === "ready") this.#events.onLate(until);
  }

  #ready(): void {
    if (this.#state !== "connecting") return;
    this.#state = "ready";
    this.#limit.cancel();
    this.#events.onReady();
  }

  /** Runs at the server. */
  #arrived(commands: readonly Command[]): void {
    const { server, callee } = this.#parts;
    if (callee.isDown) server.drop(this);
    if (!server.knows(this)) {
      this.end();
      return;
    }
    const answers = commands.map(({ words }) => server.handle(words, this));
    this.#down(() => {
      if (this.#state === "ready") for (const answer of answers) this.#answered(answer);
    });
  }

  #answered(answer: Answer): void {
    const command = this.#waiting.shift();
    if ("error" in answer) command?.reject(new Error(answer.error));
    else command?.resolve(answer.value);
  }

  #over(): void {
    if (this.#state !== "ready") return;
    this.#state = "over";
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { reject } of waiting) reject(new Error("Connection is closed."));
    this.#events.onEnd();
  }
}
