// The resources that leases protect, on a machine of their own. Each exists twice: once behind the
// real memory guard, once without a guard. Both remember the writes, so that an old write can be
// replayed long after it was sent.

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

const REMEMBERED_MAX = 200;

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

  /** Advances the guard over the network. Used by acquire({ guards }). */
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
   * Replays an old write with an outdated token, as a restored message queue would. Prefers a write
   * whose token is outdated at the guard, even if it went to the unguarded resource before. Returns
   * false if there is no such write.
   */
  replay(): boolean {
    const guarded = this.#findStaleAtGuard();
    const old = guarded ?? this.#past.find(({ write }) => write.token < this.#highestToken(write));
    if (old === undefined) return false;
    const write = { ...old.write, guarded: guarded !== undefined };
    this.program.receive(() => this.#write(old.from, write, "again"));
    return true;
  }

  /** Whether replay() can send a stale write to a guard. */
  get canReplayStale(): boolean {
    return this.#findStaleAtGuard() !== undefined;
  }

  #findStaleAtGuard(): Past | undefined {
    return this.#past.find(
      ({ write }) => write.token < this.#highestToken({ ...write, guarded: true }),
    );
  }

  #write(from: string, write: Write, sent: Sent): void {
    const { resource, token, guarded } = write;
    const stale = token < this.#highestToken(write);
    const outcome = guarded ? this.#admit(write) : "admitted";
    this.#trace.note(from, { kind: "wrote", resource, token, guarded, sent, outcome, stale });
    if (outcome === "refused") return;
    this.#remember(write);
    if (this.#past.length < REMEMBERED_MAX) this.#past.push({ write, from });
  }

  /** The guard sees only the token, as it would over a network. */
  #admit({ resource, token }: Write): "admitted" | "refused" {
    try {
      return this.#guard.write({ resource, token }, () => "admitted" as const);
    } catch (error) {
      if (error instanceof StaleTokenError) return "refused";
      throw error;
    }
  }

  /** Tracked separately from the guard, because the guard is checked against it. */
  #highestToken(write: Write): bigint {
    return this.#highest.get(toKey(write)) ?? 0n;
  }

  #remember(write: Write): void {
    if (write.token > this.#highestToken(write)) this.#highest.set(toKey(write), write.token);
  }
}

/** The guarded and the unguarded resource of one name have separate tokens. */
function toKey({ resource, guarded }: Write): string {
  return `${guarded ? "guarded" : "plain"} ${resource}`;
}
