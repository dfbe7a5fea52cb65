// Handles signals sent to this process. While a command runs, signals are passed on to it;
// otherwise an ending signal aborts the wait. On ^Z the command is stopped before this process,
// because a stopped process cannot renew the lease and the command must not act without it.

import { onSignals, signalNumber } from "../runtime/process-end.ts";
import { EXIT } from "./exit-codes.ts";

export interface SignalTarget {
  pass(signal: NodeJS.Signals): void;
  /** This process is about to stop. */
  suspend(): void;
  /** This process has been continued. */
  resume(): void;
}

const ENDING: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"];
const INFORMING: readonly NodeJS.Signals[] = ["SIGUSR1", "SIGUSR2", "SIGWINCH"];

export class SignalRelay {
  /** The first ending signal received. */
  endedBy: NodeJS.Signals | undefined;
  readonly #ended = new AbortController();
  #target: SignalTarget | undefined;

  constructor() {
    onSignals(ENDING, (signal) => this.#onEnding(signal));
    onSignals(INFORMING, (signal) => this.#target?.pass(signal));
    onSignals(["SIGCONT"], () => this.#target?.resume());
    onSignals(["SIGTSTP"], () => {
      this.#target?.suspend();
      process.kill(process.pid, "SIGSTOP");
    });
  }

  /** Aborts on the first ending signal. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** The exit code of a process that the signal has ended. */
  get exitCode(): number {
    return EXIT.signal + (signalNumber(this.endedBy ?? "") ?? 0);
  }

  /** Whether a command is running. The command then decides how to react to a signal. */
  get hasTarget(): boolean {
    return this.#target !== undefined;
  }

  setTarget(target: SignalTarget | undefined): void {
    this.#target = target;
    // The signal arrived while the command was being started.
    if (this.endedBy !== undefined) target?.pass(this.endedBy);
  }

  #onEnding(signal: NodeJS.Signals): void {
    this.endedBy ??= signal;
    this.#target?.pass(signal);
    this.#ended.abort(new Error(`Ended by ${signal}.`));
  }
}
