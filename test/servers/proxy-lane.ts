// One direction of one connection through the proxy. It reads from one socket and writes to the
// other, in order: at once, with a delay, or not at all. A stream consists of chunks, followed by
// an end or a reset.
import type { Socket } from "node:net";

/** The behaviour of one direction. The lanes of all connections share it. */
export interface LaneRules {
  /** pass: forward. hold: keep everything until healed. drop: discard. */
  flow: "pass" | "hold" | "drop";
  delayMs: number;
  duplicates: boolean;
}

/**
 * Totals of one direction, over all connections. A chunk is the result of one read, often one
 * request.
 */
export interface LaneCounts {
  chunks: number;
  bytes: number;
  /** How many of these bytes were discarded. */
  droppedBytes: number;
}

type StreamEvent = { kind: "chunk"; chunk: Buffer } | { kind: "end" } | { kind: "reset" };
type Item = StreamEvent & { dueAt: number };

/**
 * With this much buffered, the lane stops reading, and the sender sees that its data is not
 * accepted.
 */
const WAITING_MAX_BYTES = 1 << 20;

export class Lane {
  readonly #source: Socket;
  readonly #target: Socket;
  readonly #rules: LaneRules;
  readonly #counts: LaneCounts;
  #waiting: Item[] = [];
  #waitingBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #hasHole = false;

  constructor(ends: { source: Socket; target: Socket }, rules: LaneRules, counts: LaneCounts) {
    this.#source = ends.source;
    this.#target = ends.target;
    this.#rules = rules;
    this.#counts = counts;
    this.#source.on("data", (chunk: Buffer) => this.#take({ kind: "chunk", chunk }));
    this.#source.on("end", () => this.#take({ kind: "end" }));
    this.#source.on("close", (hadError) => {
      if (hadError) this.#take({ kind: "reset" });
    });
    this.#target.on("drain", () => this.pump());
    this.#target.on("close", () => this.#empty());
  }

  /** True if part of the stream was discarded. The other side could not interpret the rest. */
  get hasHole(): boolean {
    return this.#hasHole;
  }

  /** Forwards everything that the rules allow now. Call it when the rules change. */
  pump(): void {
    clearTimeout(this.#timer);
    if (this.#rules.flow === "drop") this.#drop();
    while (this.#rules.flow === "pass" && !this.#target.writableNeedDrain) {
      const item = this.#waiting[0];
      if (item === undefined) break;
      const waitMs = this.#rules.delayMs === 0 ? 0 : item.dueAt - performance.now();
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.pump(), Math.ceil(waitMs));
        break;
      }
      this.#waiting.shift();
      this.#pass(item);
    }
    if (this.#waitingBytes < WAITING_MAX_BYTES) this.#source.resume();
  }

  #take(event: StreamEvent): void {
    if (event.kind === "chunk") {
      this.#counts.chunks += 1;
      this.#counts.bytes += event.chunk.length;
      this.#waitingBytes += event.chunk.length;
    }
    this.#waiting.push({ ...event, dueAt: performance.now() + this.#rules.delayMs });
    if (this.#waitingBytes >= WAITING_MAX_BYTES) this.#source.pause();
    this.pump();
  }

  #pass(item: Item): void {
    switch (item.kind) {
      case "chunk":
        this.#waitingBytes -= item.chunk.length;
        if (!this.#target.writable) return;
        this.#target.write(item.chunk);
        if (this.#rules.duplicates) this.#target.write(item.chunk);
        return;
      case "end":
        this.#target.end();
        return;
      case "reset":
        resetConnection(this.#target);
        return;
    }
  }

  #drop(): void {
    if (this.#waiting.length === 0) return;
    this.#hasHole = true;
    this.#counts.droppedBytes += this.#waitingBytes;
    this.#empty();
  }

  #empty(): void {
    clearTimeout(this.#timer);
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#source.resume();
  }
}

/** Resets a connection. One that is not established yet has no peer that could receive a reset. */
export function resetConnection(socket: Socket): void {
  if (socket.pending) socket.destroy();
  else socket.resetAndDestroy();
}
