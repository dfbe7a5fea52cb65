// Controls a worker that runs workers/puppet.mjs: its commands are methods, its errors are values.
// Use `failed()` for a command that must fail.
import type { Child, Crew, StartOptions, Told } from "./process-children.ts";

/** An error as a worker reports it. */
export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly reason?: string;
  readonly applied?: string;
  readonly cause?: Failure;
}

export interface Held {
  readonly token: bigint;
  /** When acquire() returned. */
  readonly at: number;
  /** The `safeUntil` of the lease at that moment. */
  readonly safeUntil: number;
}

const PUPPET = new URL("../../process/workers/puppet.mjs", import.meta.url);

export class Puppet {
  readonly child: Child;
  #calls = 0;

  constructor(child: Child) {
    this.child = child;
  }

  connect(file: string, options: object = {}): Promise<Told> {
    return this.call("connect", { url: `sqlite:${file}`, options });
  }

  acquire(resource: string, options: object = {}): Promise<Held> {
    const held = this.call("acquire", { resource, options }).then(toHeld);
    // A test may fail before it awaits this promise. Only that first failure should be reported.
    held.catch(() => undefined);
    return held;
  }

  async tryAcquire(resource: string, options: object = {}): Promise<Held | undefined> {
    const answer = await this.call("tryAcquire", { resource, options });
    return answer.held === true ? toHeld(answer) : undefined;
  }

  /** `startedAt` is the time of the call of release(), `at` that of its return. */
  async release(resource: string): Promise<{ result: string; startedAt: number; at: number }> {
    const { result, startedAt, at } = await this.call("release", { resource });
    return { result: String(result), startedAt: Number(startedAt), at };
  }

  async check(resource: string): Promise<bigint> {
    return BigInt(String((await this.call("check", { resource })).token));
  }

  /** Resolves when the signal of the lease aborts. */
  lost(held: Held): Promise<Told> {
    return this.child.heard("lost", (told) => told.token === String(held.token));
  }

  async cpuMs(): Promise<number> {
    return Number((await this.call("cpu", {})).cpuMs);
  }

  /** Runs one command and resolves to its answer. Rejects with the error of the worker. */
  async call(name: string, request: object): Promise<Told> {
    this.#calls += 1;
    const id = this.#calls;
    this.child.say({ id, do: name, ...request });
    const answer = await this.child.heard("answer", (told) => told.id === id);
    if (answer.error !== undefined && name !== "blockPastEnd") {
      throw new PuppetError(answer.error as Failure, answer.at);
    }
    return answer;
  }
}

/** An error that happened in a worker. */
class PuppetError extends Error {
  readonly failure: Failure;
  readonly at: number;

  constructor(failure: Failure, at: number) {
    super(`${failure.name}: ${failure.message}`);
    this.failure = failure;
    this.at = at;
  }
}

/** Resolves to the error of a command that must fail. */
export async function failed(
  command: Promise<unknown>,
): Promise<Failure & { readonly at: number }> {
  let answer: unknown;
  try {
    answer = await command;
  } catch (error) {
    if (error instanceof PuppetError) return { ...error.failure, at: error.at };
    throw error;
  }
  throw new Error(
    `Expected a failure, got ${JSON.stringify(answer, (_key, value) => String(value))}.`,
  );
}

/** Starts a worker and connects it to the store file. */
export async function puppet(
  crew: Crew,
  file: string,
  options: object = {},
  start: StartOptions = {},
): Promise<Puppet> {
  const made = new Puppet(crew.start(PUPPET, {}, start));
  await made.connect(file, options);
  return made;
}

function toHeld(answer: Told): Held {
  return {
    token: BigInt(String(answer.token)),
    at: answer.at,
    safeUntil: Number(answer.safeUntil),
  };
}
