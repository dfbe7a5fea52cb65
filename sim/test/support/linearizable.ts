// Whether a history of overlapping requests could have come from one thing that does them one after the other: for each
// request there is an instant between its sending and its answer at which it took effect. The search of Wing and Gong with
// Lowe's memory of what was tried, as Porcupine does it. For short histories: its cost grows fast with what overlaps.

/** One request. Without an answer it may have taken effect at any time since, or never. */
export interface Operation<Q, A> {
  readonly request: Q;
  readonly sentAt: number;
  readonly answer?: { readonly value: A; readonly at: number } | undefined;
}

export interface SequentialModel<S, Q, A> {
  readonly initial: S;
  /** The states that may be behind it; none when this answer is impossible here. Without an answer: whatever would be. */
  step(state: S, request: Q, answer: A | undefined): readonly S[];
  /** The same for states that behave the same. */
  keyOf(state: S): string;
}

export type Linearizability = "yes" | "no" | "unknown";

/** `unknown` when more than `triesMax` orders would have to be tried. */
export function linearizability<S, Q, A>(
  model: SequentialModel<S, Q, A>,
  history: readonly Operation<Q, A>[],
  triesMax = 1_000_000,
): Linearizability {
  const search = new Search(model, history, triesMax);
  return search.run();
}

class Search<S, Q, A> {
  readonly #model: SequentialModel<S, Q, A>;
  readonly #history: readonly Operation<Q, A>[];
  readonly #tried = new Set<string>();
  #triesLeft: number;

  constructor(
    model: SequentialModel<S, Q, A>,
    history: readonly Operation<Q, A>[],
    triesMax: number,
  ) {
    this.#model = model;
    this.#history = [...history].sort((one, other) => one.sentAt - other.sentAt);
    this.#triesLeft = triesMax;
  }

  run(): Linearizability {
    const found = this.#from(this.#model.initial, 0n);
    if (found) return "yes";
    return this.#triesLeft > 0 ? "no" : "unknown";
  }

  /** `done` has a bit for each request that has taken effect. */
  #from(state: S, done: bigint): boolean {
    const open = this.#history.flatMap((operation, index) =>
      (done >> BigInt(index)) & 1n ? [] : [{ operation, index }],
    );
    // Whoever has no answer need not ever take effect.
    if (open.every(({ operation }) => operation.answer === undefined)) return true;
    const key = `${done.toString(36)} ${this.#model.keyOf(state)}`;
    if (this.#tried.has(key)) return false;
    this.#tried.add(key);
    // Nothing may take effect behind the answer of another that has not.
    const firstAnswer = Math.min(...open.map(({ operation }) => operation.answer?.at ?? Infinity));
    for (const { operation, index } of open) {
      if (operation.sentAt > firstAnswer) break;
      this.#triesLeft -= 1;
      if (this.#triesLeft <= 0) return false;
      const behind = this.#model.step(state, operation.request, operation.answer?.value);
      const nowDone = done | (1n << BigInt(index));
      if (behind.some((next) => this.#from(next, nowDone))) return true;
    }
    return false;
  }
}
