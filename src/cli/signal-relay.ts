// Signals to this process: passed on to the command while one runs, otherwise the end of the wait. ^Z stops the command
// first and then this process, because a lease that nobody can renew must not have somebody acting under it.

import { onSignals } from "../runtime/process-end.ts";

export interface SignalTarget {
  pass(signal: NodeJS.Signals): void;
  /** This process is about to stop. */
  suspend(): void;
  /** This process has been continued. */
  resume(): void;
}

const ENDING: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"];
const TELLING: readonly NodeJS.Signals[] = ["SIGUSR1", "SIGUSR2", "SIGWINCH"];

export class SignalRelay {
  /** The first signal that asked for an end. */
  endedBy: NodeJS.Signals | undefined;
  readonly #ended = new AbortController();
  #target: SignalTarget | undefined;

  constructor() {
    onSignals(ENDING, (signal) => this.#onEnding(signal));
    onSignals(TELLING, (signal) => this.#target?.pass(signal));
    onSignals(["SIGCONT"], () => this.#target?.resume());
    onSignals(["SIGTSTP"], () => {
      this.#target?.suspend();
      process.kill(process.pid, "SIGSTOP");
    });
  }

  /** Aborts when somebody asked for an end. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Whether a command runs, which decides by itself what a signal means. */
  get hasTarget(): boolean {
    return this.#target !== undefined;
  }

  to(target: SignalTarget | undefined): void {
    this.#target = target;
    // It came while the command was being started.
    if (this.endedBy !== undefined) target?.pass(this.endedBy);
  }

  #onEnding(signal: NodeJS.Signals): void {
    this.endedBy ??= signal;
    this.#target?.pass(signal);
    this.#ended.abort(new Error(`Ended by ${signal}.`));
  }
}
