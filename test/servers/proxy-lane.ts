// One direction of one connection through the proxy: takes what one socket reads and hands it to the other, in order,
// now, later or never. What passes through is a stream: chunks, then its end or its break.
import type { Socket } from "node:net";

/** How one direction behaves now; shared by the lanes of all connections. */
export interface LaneRules {
  /** hold: nothing passes, and all of it passes when healed. drop: it is gone. */
  flow: "pass" | "hold" | "drop";
  delayMs: number;
  duplicates: boolean;
}

/** What was read in one direction, over all connections. A chunk is what one read gave: often one request. */
export interface LaneCounts {
  chunks: number;
  bytes: number;
  /** Of these, the bytes that never passed. */
  droppedBytes: number;
}

type What = { kind: "chunk"; chunk: Buffer } | { kind: "end" } | { kind: "reset" };
type Item = What & { dueAt: number };

/** Beyond this much waiting, the sender is no longer read: it feels that nobody takes its data. */
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

  /** True when part of the stream is gone for ever: what follows would make no sense to the other side. */
  get hasHole(): boolean {
    return this.#hasHole;
  }

  /** Passes on what may pass now. To be called when the rules change. */
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

  #take(what: What): void {
    if (what.kind === "chunk") {
      this.#counts.chunks += 1;
      this.#counts.bytes += what.chunk.length;
      this.#waitingBytes += what.chunk.length;
    }
    this.#waiting.push({ ...what, dueAt: performance.now() + this.#rules.delayMs });
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
        breakOff(this.#target);
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

/** Ends a connection by a reset; one that is not made yet has nobody to tell. */
export function breakOff(socket: Socket): void {
  if (socket.pending) socket.destroy();
  else socket.resetAndDestroy();
}
