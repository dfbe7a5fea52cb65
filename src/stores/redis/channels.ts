// Who listens to which channel, over one connection for messages that is made when the first one listens, and tried again as long
// as somebody does. After an interruption everything is subscribed anew, and then everyone is told to look, because messages
// were missed.

import type { Clock, Timer } from "../../async/clock.ts";
import { failure } from "../../clients/redis/failures.ts";
import type { ChannelWire, Wire } from "../../clients/redis/wire.ts";
import { isTenureError } from "../../core/errors.ts";
import { Wakeup } from "../shared/wakeup.ts";

/** Undefined: something may have been missed. The channel is told too, for those who listen to a pattern. */
export type Listener = (message: string | undefined, channel: string) => void;

interface Channel {
  readonly isPattern: boolean;
  readonly listeners: Set<Listener>;
  subscribed: Promise<void>;
  isSubscribed: boolean;
}

/** So long after a connection could not be made; later interruptions are mended by the wire. */
const RETRY_MS = 1_000;

export class Channels {
  readonly #wire: Wire;
  readonly #place: string;
  readonly #clock: Clock;
  readonly #channels = new Map<string, Channel>();
  #connection: Promise<ChannelWire> | undefined;
  /** Those who listened before got nothing from the one that failed. */
  #hasFailed = false;
  #retryTimer: Timer | undefined;
  #closed = false;

  constructor(wire: Wire, place: string, clock: Clock) {
    this.#wire = wire;
    this.#place = place;
    this.#clock = clock;
  }

  /**
   * Resolves when no message will be missed any more, or when that cannot be had now: then whoever waits must look by
   * the clock until it is told to look. Rejects when it can never be had.
   */
  async listen(name: string, listener: Listener, isPattern = false): Promise<() => void> {
    let channel = this.#channels.get(name);
    if (channel === undefined) {
      const subscribed = Promise.resolve();
      channel = { isPattern, listeners: new Set(), subscribed, isSubscribed: false };
      this.#channels.set(name, channel);
      this.#subscribe(name, channel);
    }
    channel.listeners.add(listener);
    const leave = (): void => this.#leave(name, listener);
    try {
      await channel.subscribed;
    } catch (error) {
      const reason = failure(error, this.#place);
      if (isTenureError(reason, "STORE_UNUSABLE")) {
        leave();
        throw reason;
      }
    }
    return leave;
  }

  /** Whether the server has confirmed it. */
  hears(name: string): boolean {
    return this.#channels.get(name)?.isSubscribed ?? false;
  }

  /** The server was found silent on another connection. */
  reset(): void {
    void this.#connection?.then(
      (connection) => connection.reset(),
      () => undefined,
    );
  }

  close(): void {
    this.#closed = true;
    this.#retryTimer?.cancel();
    this.#channels.clear();
    void this.#connection?.then(
      (connection) => connection.close(),
      () => undefined,
    );
  }

  #subscribe(name: string, channel: Channel): void {
    const subscribe = async (): Promise<void> => {
      const connection = await this.#connected();
      await connection.subscribe(name, channel.isPattern);
      channel.isSubscribed = true;
    };
    channel.isSubscribed = false;
    channel.subscribed = subscribe();
    channel.subscribed.catch(() => undefined);
  }

  #connected(): Promise<ChannelWire> {
    if (this.#connection === undefined) {
      const opening = this.#wire.openChannels({
        onMessage: (channel, message) => this.#deliver(channel, message),
        onBack: () => this.#back(),
      });
      this.#connection = opening;
      opening.then(
        (connection) => {
          if (this.#closed) connection.close();
          else if (this.#hasFailed) this.#back();
          this.#hasFailed = false;
        },
        () => {
          // The next one to listen tries again, and if nobody does, those who do already.
          this.#connection = undefined;
          this.#hasFailed = true;
          this.#retryTimer?.cancel();
          this.#retryTimer = this.#clock.setTimer(() => this.#retry(), RETRY_MS);
        },
      );
    }
    return this.#connection;
  }

  #deliver(name: string, message: string | undefined): void {
    for (const [key, channel] of this.#channels) {
      const matches = channel.isPattern ? name.startsWith(key.slice(0, -1)) : key === name;
      if (matches) for (const listener of [...channel.listeners]) listener(message, name);
    }
  }

  #retry(): void {
    if (!this.#closed && this.#channels.size > 0) this.#connected().catch(() => undefined);
  }

  #back(): void {
    for (const [name, channel] of this.#channels) {
      this.#subscribe(name, channel);
      channel.subscribed.then(
        () => {
          for (const listener of [...channel.listeners]) listener(undefined, name);
        },
        () => undefined,
      );
    }
  }

  #leave(name: string, listener: Listener): void {
    const channel = this.#channels.get(name);
    if (channel === undefined || !channel.listeners.delete(listener)) return;
    if (channel.listeners.size > 0) return;
    this.#channels.delete(name);
    // One that is only being made, and fails, has nothing to unsubscribe from.
    this.#connection
      ?.then((connection) => connection.unsubscribe(name, channel.isPattern))
      .catch(() => undefined);
  }
}

/** Keeps messages until somebody asks for them, so that none is lost between two questions. */
export class Mailbox {
  readonly #wakeup: Wakeup;
  #mail: (string | undefined)[] = [];

  constructor(clock: Clock) {
    this.#wakeup = new Wakeup(clock);
  }

  readonly put = (message: string | undefined): void => {
    this.#mail.push(message);
    this.#wakeup.notify();
  };

  /** Forgets what came so far. */
  clear(): void {
    this.#mail = [];
  }

  /** The next message; undefined after `delayMs` or when one may have been missed; rejects with the signal's reason. */
  async next(delayMs: number, signal: AbortSignal): Promise<string | undefined> {
    if (this.#mail.length === 0) this.#wakeup.reset();
    await this.#wakeup.wait(delayMs, signal);
    return this.#mail.shift();
  }
}
