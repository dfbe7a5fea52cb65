// Virtual time: a queue of events in a binary heap, ordered by instant and then by insertion. Each
// turn runs one event, and time advances only from one event to the next.

interface Entry {
  readonly at: number;
  readonly order: number;
  run: (() => void) | undefined;
}

export interface Scheduled {
  cancel(): void;
}

export class Schedule {
  /**
   * True time, in milliseconds since the world began. Only the world and the checkers may read it.
   */
  now = 0;
  /** How many events have run. */
  steps = 0;
  #order = 0;
  readonly #heap: Entry[] = [];

  at(instant: number, run: () => void): Scheduled {
    const entry: Entry = { at: Math.max(instant, this.now), order: this.#order++, run };
    this.#rise(entry);
    return {
      cancel: () => {
        entry.run = undefined;
      },
    };
  }

  after(delayMs: number, run: () => void): Scheduled {
    return this.at(this.now + delayMs, run);
  }

  /** When the next event is due; undefined if none is left. */
  get nextAt(): number | undefined {
    while (this.#heap[0] !== undefined && this.#heap[0].run === undefined) this.#take();
    return this.#heap[0]?.at;
  }

  /** Runs the next event. Returns false if none is left. */
  step(): boolean {
    for (;;) {
      const entry = this.#take();
      if (entry === undefined) return false;
      const { run } = entry;
      if (run === undefined) continue;
      this.now = entry.at;
      this.steps += 1;
      run();
      return true;
    }
  }

  #rise(entry: Entry): void {
    const heap = this.#heap;
    let index = heap.length;
    heap.push(entry);
    while (index > 0) {
      const above = (index - 1) >> 1;
      const parent = heap[above] as Entry;
      if (!isBefore(entry, parent)) break;
      heap[index] = parent;
      index = above;
    }
    heap[index] = entry;
  }

  #take(): Entry | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let below = 2 * index + 1;
      if (below >= heap.length) break;
      const right = below + 1;
      if (right < heap.length && isBefore(heap[right] as Entry, heap[below] as Entry))
        below = right;
      const child = heap[below] as Entry;
      if (!isBefore(child, last)) break;
      heap[index] = child;
      index = below;
    }
    heap[index] = last;
    return first;
  }
}

function isBefore(one: Entry, other: Entry): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}
