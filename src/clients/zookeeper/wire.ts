// One connection to one server. Requests are answered in order, or the connection ends and they all
// fail. It never reconnects; link.ts does.

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

/** The connection ended. Requests that were sent may or may not have been applied. */
export class ConnectionLostError extends Error {}

/** A socket decides with these two methods whether it keeps the process alive. */
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
  #handshake: { resolve(response: ConnectResponse): void; reject(reason: Error): void } | undefined;
  #outgoing: Buffer[] = [];
  #idlers: (() => void)[] = [];
  #xid = 0;
  #ended: Error | undefined;
  #lastZxid = 0n;
  #received = 0;
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

  /** How many frames were received. Distinguishes a slow connection from a silent one. */
  get received(): number {
    return this.#received;
  }

  /** Resolves when no request is unanswered, or after the limit. */
  idle(clock: Clock, limitMs: number): Promise<void> {
    if (this.#pending.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = clock.setTimer(resolve, limitMs);
      this.#idlers.push(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  /** Must be the first request, and be answered before anything else is sent. */
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
      // A caller waits for the answer, so the process must not exit.
      if (this.#pending.length === 0) this.#stream.ref?.();
      this.#pending.push({ xid, resolve, reject });
      this.#write(requestFrame(xid, message));
    });
  }

  /** Closes the connection after a last message whose answer is not awaited. */
  close(lastMessage?: Message): void {
    if (this.#ended !== undefined) return;
    if (lastMessage !== undefined) this.#write(requestFrame(0, lastMessage));
    this.#flush();
    this.#stream.end(() => this.#stream.destroy());
    this.#stream.unref?.();
    this.#finish(new Error("the connection was closed by its user"));
  }

  /** Breaks the connection. */
  end(cause: Error): void {
    if (this.#ended !== undefined) return;
    this.#stream.destroy();
    this.#finish(cause);
  }

  #finish(cause: Error): void {
    this.#ended = new ConnectionLostError(cause.message, { cause });
    this.#handshake?.reject(this.#ended);
    for (const { reject } of this.#pending.splice(0)) reject(this.#ended);
    this.#wakeIdlers();
    this.onEnd();
  }

  #wakeIdlers(): void {
    for (const wake of this.#idlers.splice(0)) wake();
  }

  /** Messages of one turn of the event loop travel in one write. */
  #write(frame: Buffer): void {
    // A settled promise, because queueMicrotask() would create an async resource for each message.
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
        this.#received += 1;
        this.#take(new JuteReader(frame));
      }
    } catch (error) {
      this.end(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #take(body: JuteReader): void {
    if (this.#handshake !== undefined) {
      const { resolve } = this.#handshake;
      // If this throws, the end of the connection rejects the handshake.
      const response = readConnectResponse(body);
      this.#handshake = undefined;
      resolve(response);
      // An idle connection does not keep the process alive.
      this.#stream.unref?.();
      return;
    }
    const [xid, zxid, error] = [body.int(), body.long(), body.int()];
    if (zxid > this.#lastZxid) this.#lastZxid = zxid;
    if (xid === XID.event) {
      this.onEvent(readEvent(body));
      return;
    }
    const [next] = this.#pending;
    if (next === undefined || next.xid !== xid)
      throw new ProtocolError(`an answer to ${xid} instead of ${next?.xid ?? "an event"}`);
    this.#pending.shift();
    if (this.#pending.length === 0) {
      this.#stream.unref?.();
      this.#wakeIdlers();
    }
    next.resolve({ zxid, error, body });
  }
}
