// The members of the cluster as one server: a request goes to the member that answered last; if that one is slow, the
// next is asked as well, and the first answer counts. So a member that is frozen, cut off or without a leader costs a
// part of the limit, not all of it. A request may therefore arrive twice: every one of the store's is harmless then,
// and is told (`doubtful`) when an earlier copy may have been carried out.

import type { Clock } from "../../async/clock.ts";
import { isTenureError, StoreUnavailableError, type TenureError } from "../../core/errors.ts";
import { judge, loginRejected, refusal, statusOf, unavailable, withApplied } from "./errors.ts";
import { type Credential, Logins } from "./logins.ts";
import { type Member, Race, type Reply } from "./race.ts";
import { authenticate, type Rpc } from "./rpc.ts";
import type { EtcdMetadata, EtcdStream, EtcdStreamEvents, EtcdTransport } from "./transport.ts";

export type { Reply };

export interface Login {
  readonly name: string;
  readonly password: string;
}

export interface Opened {
  readonly stream: EtcdStream;
  readonly member: Member;
  readonly used: Credential;
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

/** One with the login at hand, one with a new login, and one more because roles can change just after that login. */
const TRIES_MAX = 3;

export class EtcdClient {
  /** For people: all of them. */
  readonly place: string;
  readonly #clock: Clock;
  readonly #members: readonly Member[];
  readonly #login: Login | undefined;
  readonly #logins: Logins;
  #current = 0;
  #closed = false;

  constructor(transports: readonly EtcdTransport[], login: Login | undefined, clock: Clock) {
    this.#clock = clock;
    this.#login = login;
    this.#members = transports.map((transport) => ({ transport, heardAt: clock.now() }));
    this.place = transports.map((transport) => transport.place).join(", ");
    this.#logins = new Logins({
      ...{ clock, place: this.place },
      authenticate: (limitMs) => this.#authenticate(limitMs),
    });
  }

  async call<Q, A>(rpc: Rpc<Q, A>, request: Q, options: CallOptions): Promise<A> {
    return (await this.ask(rpc, request, options)).answer;
  }

  async ask<Q, A>(rpc: Rpc<Q, A>, request: Q, options: CallOptions): Promise<Reply<A>> {
    const endsAt = this.#clock.now() + options.limitMs;
    const message = rpc.encode(request);
    let wasDoubtful = false;
    let rejected: Credential | undefined;
    for (let tries = 1; ; tries += 1) {
      const login = this.loggedIn(endsAt - this.#clock.now(), rejected);
      if (login !== undefined) {
        await login.catch((error: unknown) => {
          throw withApplied(error, wasDoubtful ? "unknown" : "no");
        });
      }
      const used = this.#logins.current;
      const limitMs = endsAt - this.#clock.now();
      const race = this.#race(rpc, message, used, { ...options, limitMs });
      try {
        const { answer, doubtful } = await race.run();
        return { answer: this.#decoded(rpc, answer), doubtful: doubtful || wasDoubtful };
      } catch (error) {
        wasDoubtful ||= race.doubtful;
        if (isTenureError(error)) throw wasDoubtful ? withApplied(error, "unknown") : error;
        if (options.foreseen?.(error)) throw error;
        const final = this.finalError(error, { tries, isDoubtful: wasDoubtful });
        if (final !== undefined) throw final;
        rejected = used;
      }
    }
  }

  /** A stream at the member that answered last, and what it was opened with. Throws when it cannot be made. */
  stream(path: string, events: EtcdStreamEvents): Opened {
    if (this.#closed) throw this.closedError();
    const member = this.#at(this.#current);
    const heard: EtcdStreamEvents = {
      onMessage: (message) => {
        member.heardAt = this.#clock.now();
        events.onMessage(message);
      },
      onEnd: (reason) => events.onEnd(reason),
    };
    const used = this.#logins.current;
    return { stream: member.transport.stream(path, metadataOf(used), heard), member, used };
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

  /**
   * Waits for a login under way, and starts one if `rejected` is the current credential. Undefined if there is nothing to
   * wait for, which is always so without a user and a password.
   */
  loggedIn(limitMs: number, rejected?: Credential): Promise<void> | undefined {
    return this.#login === undefined ? undefined : this.#logins.ready(rejected, limitMs);
  }

  /** Logs in before the first request. */
  async logIn(limitMs: number): Promise<void> {
    await this.loggedIn(limitMs, this.#logins.current);
  }

  /** What to tell the caller of a request that etcd has answered with an error. Undefined: try again with a new login. */
  finalError(
    error: unknown,
    { tries, isDoubtful }: { readonly tries: number; readonly isDoubtful: boolean },
  ): TenureError | undefined {
    if (this.#login === undefined || judge(error).kind !== "login")
      return refusal(error, this.place);
    if (tries < TRIES_MAX) return undefined;
    return loginRejected(error, { place: this.place, applied: isDoubtful ? "unknown" : "no" });
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

  async #authenticate(limitMs: number): Promise<string | undefined> {
    if (this.#login === undefined) return undefined;
    try {
      const question = authenticate.encode(this.#login);
      // Without the token that it replaces, which etcd may not accept any more.
      const race = this.#race(authenticate, question, { token: undefined }, { limitMs });
      return this.#decoded(authenticate, (await race.run()).answer);
    } catch (error) {
      if (isTenureError(error)) throw error;
      // Then there is nothing to prove, and every request is welcome as it is.
      if (/authentication is not enabled/.test(statusOf(error)?.details ?? "")) return undefined;
      throw refusal(error, this.place);
    }
  }

  /** A malformed answer does not say whether the request was carried out. */
  #decoded<Q, A>(rpc: Rpc<Q, A>, answer: Uint8Array): A {
    try {
      return rpc.decode(answer);
    } catch (error) {
      throw unavailable(error, { place: this.place, applied: "unknown" });
    }
  }

  #at(index: number): Member {
    const member = this.#members[index % this.#members.length];
    if (member === undefined) throw new Error("There is no member.");
    return member;
  }

  #race<Q, A>(rpc: Rpc<Q, A>, message: Uint8Array, used: Credential, options: CallOptions): Race {
    const first = this.#current;
    const metadata = metadataOf(used, options.leaderless);
    return new Race({
      ...{ clock: this.#clock, limitMs: options.limitMs, count: this.#members.length },
      ...{ name: rpc.name, place: this.place, once: options.once ?? false },
      begin: (offset) => {
        const member = this.#at(first + offset);
        return { member, call: member.transport.call(rpc.path, message, metadata) };
      },
      prefer: (member) => {
        this.#current = this.#members.indexOf(member);
      },
      isClosed: () => this.#closed,
    });
  }
}

function metadataOf({ token }: Credential, leaderless = false): EtcdMetadata {
  return {
    ...(token === undefined ? {} : { token }),
    // A member without a leader then says so instead of waiting for one.
    ...(leaderless ? {} : { hasleader: "true" }),
  };
}
