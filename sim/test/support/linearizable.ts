// Checks whether a history is linearizable: whether each request can have taken effect at one
// instant between its sending and its answer. Uses the search of Wing and Gong with Lowe's
// memoization, like Porcupine. Only for short histories, because the cost grows fast with the
// number of overlapping requests.

/** One request. Without an answer, it may take effect at any later time or never. */
export interface Operation<Q, A> {
  readonly request: Q;
  readonly sentAt: number;
  readonly answer?: { readonly value: A; readonly at: number } | undefined;
}

export interface SequentialModel<S, Q, A> {
  readonly initial: S;
  /**
   * Returns the possible next states; none if this answer is impossible. Without an answer, any
   * answer is possible.
   */
  step(state: S, request: Q, answer: A | undefined): readonly S[];
  /** Returns equal keys for states that behave the same. */
  toKey(state: S): string;
}

export type Linearizability = "yes" | "no" | "unknown";

/** Returns `unknown` if the search needs more than `triesMax` steps. */
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
    const found = this.#search(this.#model.initial, 0n);
    if (found) return "yes";
    return this.#triesLeft > 0 ? "no" : "unknown";
  }

  /** `done` has a bit for each request that has taken effect. */
  #search(state: S, done: bigint): boolean {
    const open = this.#history.flatMap((operation, index) =>
      (done >> BigInt(index)) & 1n ? [] : [{ operation, index }],
    );
    // Requests without an answer need not take effect.
    if (open.every(({ operation }) => operation.answer === undefined)) return true;
    const key = `${done.toString(36)} ${this.#model.toKey(state)}`;
    if (this.#tried.has(key)) return false;
    this.#tried.add(key);
    // No request may take effect after the answer of another that has not taken effect yet.
    const firstAnswer = Math.min(...open.map(({ operation }) => operation.answer?.at ?? Infinity));
    for (const { operation, index } of open) {
      if (operation.sentAt > firstAnswer) break;
      this.#triesLeft -= 1;
      if (this.#triesLeft <= 0) return false;
      const nextStates = this.#model.step(state, operation.request, operation.answer?.value);
      const nowDone = done | (1n << BigInt(index));
      if (nextStates.some((next) => this.#search(next, nowDone))) return true;
    }
    return false;
  }
}
