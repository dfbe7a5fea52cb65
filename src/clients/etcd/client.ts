// The connection to a cluster, as one server. A request goes to the member that answered last. If
// that one is slow, the next is asked as well, and the first answer counts. A member that is
// frozen, cut off or without a leader therefore costs a part of the limit, not all of it. A request
// may arrive twice: every request of the store allows that, and the reply says if it is possible.

import type { Clock } from "../../async/clock.ts";
import { isTenureError, StoreUnavailableError, type TenureError } from "../../core/errors.ts";
import { judge, loginRejected, refusal, statusOf, unavailable, withApplied } from "./errors.ts";
import { type Credential, Logins } from "./logins.ts";
import { type Member, Race } from "./race.ts";
import { authenticate, type Rpc } from "./rpc.ts";
import type { EtcdMetadata, EtcdStream, EtcdStreamEvents, EtcdTransport } from "./transport.ts";

export interface Login {
  readonly name: string;
  readonly password: string;
}

export interface Reply<A> {
  readonly answer: A;
  /** An earlier copy of the request may have been applied too, or may still arrive. */
  readonly doubtful: boolean;
}

export interface OpenStream {
  readonly stream: EtcdStream;
  readonly member: Member;
  readonly used: Credential;
}

export interface CallOptions {
  readonly limitMs: number;
  /** A member without a leader may answer too. */
  readonly leaderless?: boolean | undefined;
  /**
   * Sent to another member only if the first cannot have applied it: for a write of which a late
   * copy would do harm. @default false
   */
  readonly once?: boolean | undefined;
  /** Answers of etcd that the caller expects. They are thrown as they are. */
  readonly foreseen?: ((error: unknown) => boolean) | undefined;
}

/** With the current login, with a new one, and once more: roles may change right after a login. */
const TRIES_MAX = 3;

export class EtcdClient {
  /** All addresses, for messages. */
  readonly place: string;
  readonly #clock: Clock;
  readonly #members: readonly Member[];
  readonly #login: Login | undefined;
  readonly #logins: Logins;
  #current = 0;
  #isClosed = false;

  constructor(transports: readonly EtcdTransport[], login: Login | undefined, clock: Clock) {
    this.#clock = clock;
    this.#login = login;
    this.#members = transports.map((transport) => ({ transport, heardAt: clock.now() }));
    this.place = transports.map((transport) => transport.place).join(", ");
    const logIn = (limitMs: number): Promise<string | undefined> => this.#authenticate(limitMs);
    this.#logins = new Logins({ clock, place: this.place, authenticate: logIn });
  }

  async call<Q, A>(rpc: Rpc<Q, A>, request: Q, options: CallOptions): Promise<A> {
    return (await this.ask(rpc, request, options)).answer;
  }

  async ask<Q, A>(rpc: Rpc<Q, A>, request: Q, options: CallOptions): Promise<Reply<A>> {
    const endsAt = this.#clock.now() + options.limitMs;
    const message = rpc.encode(request);
    let doubtful = false;
    let rejected: Credential | undefined;
    for (let tries = 1; ; tries += 1) {
      const login = this.loggedIn(endsAt - this.#clock.now(), rejected);
      if (login !== undefined)
        await login.catch((error: unknown) => {
          throw withApplied(error, doubtful ? "unknown" : "no");
        });
      const used = this.#logins.current;
      const limitMs = endsAt - this.#clock.now();
      const race = this.#race(rpc, message, used, { ...options, limitMs });
      try {
        const answer = await race.run();
        doubtful ||= race.isDoubtful;
        return { answer: this.#decode(rpc, answer), doubtful };
      } catch (error) {
        doubtful ||= race.isDoubtful;
        if (isTenureError(error)) throw doubtful ? withApplied(error, "unknown") : error;
        if (options.foreseen?.(error)) throw error;
        const final = this.#finalError(error, tries, doubtful);
        if (final !== undefined) throw final;
        rejected = used;
      }
    }
  }

  /** Opens a stream to the member that answered last. Throws if that is impossible. */
  stream(path: string, events: EtcdStreamEvents): OpenStream {
    this.#checkOpen();
    const member = this.#memberAt(this.#current);
    const onMessage = (message: Uint8Array): void => {
      member.heardAt = this.#clock.now();
      events.onMessage(message);
    };
    const onEnd = (reason: unknown): void => events.onEnd(reason);
    const used = this.#logins.current;
    const stream = member.transport.stream(path, toMetadata(used), { onMessage, onEnd });
    return { stream, member, used };
  }

  /** Asks the next member from now on, because this one has failed. */
  leave(member: Member): void {
    if (this.#memberAt(this.#current) === member)
      this.#current = (this.#current + 1) % this.#members.length;
  }

  /**
   * Waits for the login in progress, and starts one if `rejected` is the current credential.
   * Undefined if there is nothing to wait for, which is always so without a user.
   */
  loggedIn(limitMs: number, rejected?: Credential): Promise<void> | undefined {
    return this.#login === undefined ? undefined : this.#logins.ready(rejected, limitMs);
  }

  /** Logs in before the first request. */
  async logIn(limitMs: number): Promise<void> {
    await this.loggedIn(limitMs, this.#logins.current);
  }

  closedError(): StoreUnavailableError {
    const message = `The store of etcd at ${this.place} is closed.`;
    return new StoreUnavailableError(message, { applied: "no" });
  }

  close(): void {
    this.#isClosed = true;
    for (const { transport } of this.#members) transport.close();
  }

  #checkOpen(): void {
    if (this.#isClosed) throw this.closedError();
  }

  /** The error for an answer of etcd. Undefined: try again with a new login. */
  #finalError(error: unknown, tries: number, doubtful: boolean): TenureError | undefined {
    if (this.#login === undefined || judge(error).kind !== "login")
      return refusal(error, this.place);
    if (tries < TRIES_MAX) return undefined;
    return loginRejected(error, { place: this.place, applied: doubtful ? "unknown" : "no" });
  }

  async #authenticate(limitMs: number): Promise<string | undefined> {
    if (this.#login === undefined) return undefined;
    try {
      const message = authenticate.encode(this.#login);
      // Without the token that it replaces, which etcd may reject.
      const race = this.#race(authenticate, message, { token: undefined }, { limitMs });
      return this.#decode(authenticate, await race.run());
    } catch (error) {
      if (isTenureError(error)) throw error;
      // Then every request is accepted as it is.
      if (/authentication is not enabled/.test(statusOf(error)?.details ?? "")) return undefined;
      throw refusal(error, this.place);
    }
  }

  /** A malformed answer does not say whether the request was applied. */
  #decode<Q, A>(rpc: Rpc<Q, A>, answer: Uint8Array): A {
    try {
      return rpc.decode(answer);
    } catch (error) {
      throw unavailable(error, { place: this.place, applied: "unknown" });
    }
  }

  #memberAt(index: number): Member {
    const member = this.#members[index % this.#members.length];
    if (member === undefined) throw new Error("There is no member.");
    return member;
  }

  #race<Q, A>(rpc: Rpc<Q, A>, message: Uint8Array, used: Credential, options: CallOptions): Race {
    const first = this.#current;
    const metadata = toMetadata(used, options.leaderless);
    return new Race({
      clock: this.#clock,
      limitMs: options.limitMs,
      count: this.#members.length,
      name: rpc.name,
      place: this.place,
      once: options.once ?? false,
      begin: (offset) => {
        const member = this.#memberAt(first + offset);
        return { member, call: member.transport.call(rpc.path, message, metadata) };
      },
      prefer: (member) => {
        this.#current = this.#members.indexOf(member);
      },
      checkOpen: () => this.#checkOpen(),
    });
  }
}

function toMetadata({ token }: Credential, leaderless = false): EtcdMetadata {
  return {
    ...(token === undefined ? {} : { token }),
    // A member without a leader then says so instead of waiting for one.
    ...(leaderless ? {} : { hasleader: "true" }),
  };
}
