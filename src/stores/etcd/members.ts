// The members of the cluster as one server: a request goes to the member that answered last; if that one is slow, the
// next is asked as well, and the first answer counts. So a member that is frozen, cut off or without a leader costs a
// part of the limit, not all of it. A request may therefore arrive twice: every one of the store's is harmless then,
// and is told (`doubtful`) when an earlier copy may have been carried out.

import type { Clock } from "../../core/clock.ts";
import { isTenureError, StoreUnavailableError } from "../../core/errors.ts";
import { judge, refusal, statusOf } from "./failures.ts";
import { type Member, Race, type Reply } from "./race.ts";
import { authenticate, type Rpc } from "./rpc.ts";
import type { EtcdStream, EtcdTransport, Metadata, StreamEvents } from "./transport.ts";

export interface Login {
  readonly name: string;
  readonly password: string;
}

export interface CallOptions {
  readonly limitMs: number;
  /** Answered by a member without a leader, too. */
  readonly leaderless?: boolean | undefined;
  /**
   * Sent to one member only, and to the next only when it cannot have been carried out: for a write of which a late copy
   * would do harm. @default false
   */
  readonly once?: boolean | undefined;
  /** Answers of etcd that the caller reckons with: these are thrown as they are. */
  readonly foreseen?: ((error: unknown) => boolean) | undefined;
}

export class Members {
  /** For people: all of them. */
  readonly place: string;
  readonly #clock: Clock;
  readonly #members: readonly Member[];
  readonly #login: Login | undefined;
  #current = 0;
  #token: string | undefined;
  #loggingIn: Promise<void> | undefined;
  #closed = false;

  constructor(transports: readonly EtcdTransport[], login: Login | undefined, clock: Clock) {
    this.#clock = clock;
    this.#login = login;
    this.#members = transports.map((transport) => ({ transport, heardAt: clock.now() }));
    this.place = transports.map((transport) => transport.place).join(", ");
  }

  async call<Q, A>(rpc: Rpc<Q, A>, request: Q, options: CallOptions): Promise<A> {
    return (await this.ask(rpc, request, options)).answer;
  }

  async ask<Q, A>(rpc: Rpc<Q, A>, request: Q, options: CallOptions): Promise<Reply<A>> {
    const endsAt = this.#clock.now() + options.limitMs;
    const message = rpc.encode(request);
    let wasDoubtful = false;
    for (let logins = 0; ; logins += 1) {
      const limitMs = endsAt - this.#clock.now();
      const race = this.#race(rpc, message, { ...options, limitMs });
      try {
        const { answer, doubtful } = await race.run();
        return { answer: rpc.decode(answer), doubtful: doubtful || wasDoubtful };
      } catch (error) {
        wasDoubtful ||= race.doubtful;
        if (isTenureError(error) || options.foreseen?.(error)) throw error;
        const mayLogIn = this.#login !== undefined && logins === 0;
        if (!mayLogIn || judge(error).kind !== "login") throw refusal(error, this.place);
      }
      await this.logIn(endsAt - this.#clock.now());
    }
  }

  /** A stream at the member that answered last, and that member. Throws when it cannot be made. */
  stream(
    path: string,
    events: StreamEvents,
  ): { readonly stream: EtcdStream; readonly member: Member } {
    if (this.#closed) throw this.closedError();
    const member = this.#at(this.#current);
    const heard: StreamEvents = {
      onMessage: (message) => {
        member.heardAt = this.#clock.now();
        events.onMessage(message);
      },
      onEnd: (reason) => events.onEnd(reason),
    };
    return { stream: member.transport.stream(path, this.#metadata(), heard), member };
  }

  /** This member does not do: the next one is asked from now on. Its connection is dropped when it was silent. */
  leave(member: Member, since: number): void {
    if (this.#at(this.#current) === member)
      this.#current = (this.#current + 1) % this.#members.length;
    if (member.heardAt < since) member.transport.reset();
  }

  get count(): number {
    return this.#members.length;
  }

  /** One at a time, however many requests find out that it is needed. Does nothing without a user and password. */
  logIn(limitMs: number): Promise<void> {
    const login = this.#login;
    if (login === undefined) return Promise.resolve();
    this.#loggingIn ??= this.#authenticate(login, limitMs).finally(() => {
      this.#loggingIn = undefined;
    });
    return this.#loggingIn;
  }

  closedError(): StoreUnavailableError {
    return new StoreUnavailableError(`The store of etcd at ${this.place} is closed.`, {
      applied: "no",
    });
  }

  close(): void {
    this.#closed = true;
    for (const { transport } of this.#members) transport.close();
  }

  async #authenticate(login: Login, limitMs: number): Promise<void> {
    this.#token = undefined;
    try {
      const question = authenticate.encode(login);
      const { answer } = await this.#race(authenticate, question, { limitMs }).run();
      this.#token = authenticate.decode(answer);
    } catch (error) {
      if (isTenureError(error)) throw error;
      // Then there is nothing to prove, and every request is welcome as it is.
      if (!/authentication is not enabled/.test(statusOf(error)?.details ?? ""))
        throw refusal(error, this.place);
    }
  }

  #at(index: number): Member {
    const member = this.#members[index % this.#members.length];
    if (member === undefined) throw new Error("There is no member.");
    return member;
  }

  #metadata(leaderless = false): Metadata {
    return {
      ...(this.#token === undefined ? {} : { token: this.#token }),
      // A member without a leader then says so instead of waiting for one.
      ...(leaderless ? {} : { hasleader: "true" }),
    };
  }

  #race<Q, A>(rpc: Rpc<Q, A>, message: Uint8Array, options: CallOptions): Race {
    const first = this.#current;
    return new Race({
      ...{ clock: this.#clock, limitMs: options.limitMs, count: this.#members.length },
      ...{ name: rpc.name, place: this.place, once: options.once ?? false },
      begin: (offset) => {
        const member = this.#at(first + offset);
        const metadata = this.#metadata(options.leaderless);
        return { member, call: member.transport.call(rpc.path, message, metadata) };
      },
      prefer: (member) => {
        this.#current = this.#members.indexOf(member);
      },
      isClosed: () => this.#closed,
    });
  }
}
