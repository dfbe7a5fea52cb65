// Subscriptions, over one connection that is opened for the first of them. While a connection
// cannot be opened, it is tried again every second. After an interruption everything is subscribed
// again, and then each listener learns that it may have missed messages.

import type { Clock, Timer } from "../../async/clock.ts";
import { failure } from "../../clients/redis/failures.ts";
import type { ChannelWire, Wire } from "../../clients/redis/wire.ts";
import { isTenureError } from "../../core/errors.ts";

/** Undefined: messages may have been missed. */
export type Listener = (message: string | undefined) => void;

interface Channel {
  readonly listeners: Set<Listener>;
  subscribed: Promise<void>;
  isSubscribed: boolean;
}

/** After a connection could not be opened. The client library repairs later interruptions. */
const RETRY_MS = 1_000;

export class Channels {
  readonly #wire: Wire;
  readonly #place: string;
  readonly #clock: Clock;
  readonly #channels = new Map<string, Channel>();
  #connection: Promise<ChannelWire> | undefined;
  #hasFailed = false;
  #retryTimer: Timer | undefined;
  #isClosed = false;

  constructor(wire: Wire, place: string, clock: Clock) {
    this.#wire = wire;
    this.#place = place;
    this.#clock = clock;
  }

  /**
   * Resolves when no message will be missed, or when the server cannot be reached now. Rejects if
   * the user may not subscribe.
   */
  async listen(name: string, listener: Listener): Promise<() => void> {
    let channel = this.#channels.get(name);
    if (channel === undefined) {
      channel = { listeners: new Set(), subscribed: Promise.resolve(), isSubscribed: false };
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

  /** Whether the server has confirmed the subscription. */
  isSubscribed(name: string): boolean {
    return this.#channels.get(name)?.isSubscribed ?? false;
  }

  /** Another connection to the server was silent. */
  reset(): void {
    this.#withConnection((connection) => connection.reset());
  }

  close(): void {
    this.#isClosed = true;
    this.#retryTimer?.cancel();
    this.#channels.clear();
    this.#withConnection((connection) => connection.close());
  }

  /** Does nothing if there is no connection, or if it cannot be opened. */
  #withConnection(act: (connection: ChannelWire) => unknown): void {
    this.#connection?.then(act).catch(() => undefined);
  }

  #subscribe(name: string, channel: Channel): void {
    const subscribe = async (): Promise<void> => {
      const connection = await this.#connect();
      await connection.subscribe(name);
      channel.isSubscribed = true;
    };
    channel.isSubscribed = false;
    channel.subscribed = subscribe();
    channel.subscribed.catch(() => undefined);
  }

  #connect(): Promise<ChannelWire> {
    if (this.#connection === undefined) {
      const opening = this.#wire.openChannels({
        onMessage: (channel, message) => this.#deliver(channel, message),
        onBack: () => this.#subscribeAgain(),
      });
      this.#connection = opening;
      opening.then(
        (connection) => {
          if (this.#isClosed) connection.close();
          else if (this.#hasFailed) this.#subscribeAgain();
          this.#hasFailed = false;
        },
        () => {
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
    for (const listener of [...(this.#channels.get(name)?.listeners ?? [])]) listener(message);
  }

  #retry(): void {
    if (!this.#isClosed && this.#channels.size > 0) this.#connect().catch(() => undefined);
  }

  #subscribeAgain(): void {
    for (const [name, channel] of this.#channels) {
      this.#subscribe(name, channel);
      channel.subscribed.then(
        () => this.#deliver(name, undefined),
        () => undefined,
      );
    }
  }

  #leave(name: string, listener: Listener): void {
    const channel = this.#channels.get(name);
    if (channel === undefined || !channel.listeners.delete(listener)) return;
    if (channel.listeners.size > 0) return;
    this.#channels.delete(name);
    this.#withConnection((connection) => connection.unsubscribe(name));
  }
}
