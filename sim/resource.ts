// The things that leases protect, on a machine of their own: some behind a guard (the real one), some with nothing before
// them but the holders' own care. Both remember every write, and writes can come again long after they were sent.

import { StaleTokenError } from "../src/core/errors.ts";
import { type MemoryGuard, memoryGuard } from "../src/guards/memory/index.ts";
import type { Network } from "./world/network.ts";
import type { Program } from "./world/program.ts";
import type { Sent, Trace } from "./world/trace.ts";

export interface Write {
  readonly resource: string;
  readonly token: bigint;
  readonly guarded: boolean;
}

interface Past {
  readonly write: Write;
  readonly from: string;
}

const REMEMBERED = 200;

export class Resources {
  readonly program: Program;
  readonly #network: Network;
  readonly #trace: Trace;
  readonly #guard: MemoryGuard = memoryGuard();
  readonly #highest = new Map<string, bigint>();
  readonly #past: Past[] = [];

  constructor(program: Program, network: Network, trace: Trace) {
    this.program = program;
    this.#network = network;
    this.#trace = trace;
  }

  send(from: Program, write: Write, sent: Sent): void {
    this.#network.send(from, this.program, () => this.#write(from.name, write, sent));
  }

  /** Advances the guard over the network, for acquire({ guards }). */
  advance(
    from: Program,
    source: { readonly resource: string; readonly token: bigint },
  ): Promise<void> {
    const { resource, token } = source;
    return new Promise((resolve, reject) => {
      const answer = (settle: () => void): void => this.#network.send(this.program, from, settle);
      this.#network.send(from, this.program, () => {
        try {
          this.#guard.advance({ resource, token });
          this.#remember({ resource, token, guarded: true });
          this.#trace.note(from.name, { kind: "advanced", resource, token });
          answer(resolve);
        } catch (error) {
          answer(() => reject(error));
        }
      });
    });
  }

  /**
   * An old write comes once more, as from a queue that was restored: one that has been overtaken. Where nobody wrote to a
   * guarded resource with an old token, one who wrote elsewhere with it tries now.
   */
  replay(): boolean {
    const guarded = this.#overtaken();
    const old = guarded ?? this.#past.find(({ write }) => write.token < this.#highestOf(write));
    if (old === undefined) return false;
    const write = { ...old.write, guarded: guarded !== undefined };
    this.program.receive(() => this.#write(old.from, write, "again"));
    return true;
  }

  /** Whether there is anything to try a guard with. */
  get canTryGuard(): boolean {
    return this.#overtaken() !== undefined;
  }

  #overtaken(): Past | undefined {
    return this.#past.find(
      ({ write }) => write.token < this.#highestOf({ ...write, guarded: true }),
    );
  }

  #write(from: string, write: Write, sent: Sent): void {
    const { resource, token, guarded } = write;
    const stale = token < this.#highestOf(write);
    const outcome = guarded ? this.#admit(write) : "admitted";
    this.#trace.note(from, { kind: "wrote", resource, token, guarded, sent, outcome, stale });
    if (outcome === "refused") return;
    this.#remember(write);
    if (this.#past.length < REMEMBERED) this.#past.push({ write, from });
  }

  /** The token came over a wire: the guard has nothing but the number. */
  #admit({ resource, token }: Write): "admitted" | "refused" {
    try {
      return this.#guard.write({ resource, token }, () => "admitted" as const);
    } catch (error) {
      if (error instanceof StaleTokenError) return "refused";
      throw error;
    }
  }

  /** Counted here and not asked of the guard: it is what the guard is judged by. */
  #highestOf(write: Write): bigint {
    return this.#highest.get(nameOf(write)) ?? 0n;
  }

  #remember(write: Write): void {
    if (write.token > this.#highestOf(write)) this.#highest.set(nameOf(write), write.token);
  }
}

/** Guarded and plain resources of one name are two things: one must not be judged by the writes of the other. */
function nameOf({ resource, guarded }: Write): string {
  return `${guarded ? "guarded" : "plain"} ${resource}`;
}
