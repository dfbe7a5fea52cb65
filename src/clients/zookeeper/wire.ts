// One connection to one server: what is sent is answered in order, or the connection ends and everything under way with
// it. It says when something was last heard, and never tries again: that is for link.ts to decide.

import type { Duplex } from "node:stream";
import type { Clock } from "../../async/clock.ts";
import { FrameReader, JuteReader, ProtocolError } from "./jute.ts";
import {
  type ConnectRequest,
  type ConnectResponse,
  connectFrame,
  type Message,
  readConnectResponse,
  readEvent,
  requestFrame,
  type WatchEvent,
  XID,
} from "./messages.ts";

export interface Reply {
  readonly zxid: bigint;
  /** 0 or one of ERROR. */
  readonly error: number;
  readonly body: JuteReader;
}

/** The connection ended; requests that were sent may or may not have been carried out. */
export class ConnectionLostError extends Error {}

/** A stream that may have the two methods of a socket that decide whether it keeps the process alive. */
type MaybeSocket = Duplex & { ref?(): unknown; unref?(): unknown };

const TURN: Promise<void> = Promise.resolve();

interface Pending {
  readonly xid: number;
  resolve(reply: Reply): void;
  reject(reason: Error): void;
}

export class Wire {
  readonly #stream: MaybeSocket;
  readonly #frames = new FrameReader();
  #pending: Pending[] = [];
  /** Answered so far of #pending: shifting one by one would cost more the more is under way. */
  #answered = 0;
  #handshake: { resolve(response: ConnectResponse): void; reject(reason: Error): void } | undefined;
  #outgoing: Buffer[] = [];
  #idlers: (() => void)[] = [];
  #xid = 0;
  #ended: Error | undefined;
  #lastZxid = 0n;
  /** Counts frames, so that silence can be told from slowness. */
  #heard = 0;
  onEvent: (event: WatchEvent) => void = () => undefined;
  onEnd: () => void = () => undefined;

  constructor(stream: Duplex) {
    this.#stream = stream;
    this.#stream.on("data", (chunk: Buffer) => this.#read(chunk));
    this.#stream.on("error", (cause: Error) => this.end(cause));
    this.#stream.on("end", () => this.end(new Error("the server closed the connection")));
    this.#stream.on("close", () => this.end(new Error("the connection was closed")));
  }

  get hasEnded(): boolean {
    return this.#ended !== undefined;
  }

  get lastZxid(): bigint {
    return this.#lastZxid;
  }

  get heard(): number {
    return this.#heard;
  }

  /** Requests that wait for their answers. */
  get underWay(): number {
    return this.#pending.length - this.#answered;
  }

  /** Resolves when every request has its answer or will never get one, and at the latest after the limit. */
  idle(clock: Clock, limitMs: number): Promise<void> {
    if (this.underWay === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = clock.setTimer(resolve, limitMs);
      this.#idlers.push(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  /** Must come first, and be answered before anything else is sent. */
  shakeHands(request: ConnectRequest): Promise<ConnectResponse> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) return reject(this.#ended);
      this.#handshake = { resolve, reject };
      this.#stream.write(connectFrame(request));
    });
  }

  send(message: Message, fixedXid?: number): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) return reject(this.#ended);
      if (fixedXid === undefined) this.#xid = (this.#xid + 1) % 0x7fff_ffff;
      const xid = fixedXid ?? this.#xid;
      // Someone waits for an answer: the process must not end before it.
      if (this.underWay === 0) this.#stream.ref?.();
      this.#pending.push({ xid, resolve, reject });
      this.#write(requestFrame(xid, message));
    });
  }

  /** Says goodbye with a last message that nobody waits for. */
  close(lastMessage?: Message): void {
    if (this.#ended !== undefined) return;
    if (lastMessage !== undefined) this.#write(requestFrame(0, lastMessage));
    this.#flush();
    this.#stream.end(() => this.#stream.destroy());
    this.#stream.unref?.();
    this.#finish(new Error("the connection was closed by its user"));
  }

  /** Breaks it off. */
  end(cause: Error): void {
    if (this.#ended !== undefined) return;
    this.#stream.destroy();
    this.#finish(cause);
  }

  #finish(cause: Error): void {
    this.#ended = new ConnectionLostError(cause.message, { cause });
    const pending = this.#pending.slice(this.#answered);
    this.#pending = [];
    this.#answered = 0;
    this.#handshake?.reject(this.#ended);
    for (const { reject } of pending) reject(this.#ended);
    this.#wakeIdlers();
    this.onEnd();
  }

  #wakeIdlers(): void {
    for (const wake of this.#idlers.splice(0)) wake();
  }

  /** What is sent in one turn of the event loop travels in one write. */
  #write(frame: Buffer): void {
    // A promise's turn: queueMicrotask() would make an async resource for each.
    if (this.#outgoing.push(frame) === 1) void TURN.then(this.#flushLater);
  }

  readonly #flushLater = (): void => this.#flush();

  #flush(): void {
    const frames = this.#outgoing;
    this.#outgoing = [];
    if (frames.length === 0 || this.#stream.destroyed || this.#stream.writableEnded) return;
    this.#stream.write(frames.length === 1 ? (frames[0] as Buffer) : Buffer.concat(frames));
  }

  #read(chunk: Buffer): void {
    try {
      for (const frame of this.#frames.take(chunk)) {
        if (this.#ended !== undefined) return;
        this.#heard += 1;
        this.#take(new JuteReader(frame));
      }
    } catch (error) {
      this.end(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #take(body: JuteReader): void {
    if (this.#handshake !== undefined) {
      const { resolve } = this.#handshake;
      this.#handshake = undefined;
      resolve(readConnectResponse(body));
      // Until something is asked, an open connection is no reason to stay alive.
      this.#stream.unref?.();
      return;
    }
    const [xid, zxid, error] = [body.int(), body.long(), body.int()];
    if (zxid > this.#lastZxid) this.#lastZxid = zxid;
    if (xid === XID.event) {
      this.onEvent(readEvent(body));
      return;
    }
    const next = this.#pending[this.#answered];
    if (next === undefined || next.xid !== xid) {
      throw new ProtocolError(`an answer to ${xid} where ${next?.xid ?? "none"} was due`);
    }
    this.#answered += 1;
    if (this.underWay === 0) {
      this.#pending = [];
      this.#answered = 0;
      this.#stream.unref?.();
      this.#wakeIdlers();
    } else if (this.#answered >= 1024) {
      this.#pending = this.#pending.slice(this.#answered);
      this.#answered = 0;
    }
    next.resolve({ zxid, error, body });
  }
}
