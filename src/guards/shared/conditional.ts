// The rule for resources that know no comparison by size, only "write if this is still as I saw it": read, decide here,
// write on that condition, and read again when somebody came in between. What was seen is remembered, so that a holder
// that writes again and again looks once, and each further write is one round trip.

import { GuardUnavailableError } from "../../core/errors.ts";
import { admit, type TokenSource } from "../guard.ts";

/** The highest as it was when last looked at, with whatever tells that it still is. */
export interface Seen<Mark> {
  readonly highest: bigint | undefined;
  readonly mark: Mark;
}

export interface Conditional<Mark, Answer> {
  read(): Promise<Seen<Mark>>;
  /** One atomic step: advances to the token and writes if what was seen still holds; else does nothing: undefined. */
  write(
    token: bigint,
    seen: Seen<Mark>,
  ): Promise<{ readonly answer: Answer; readonly seen: Seen<Mark> } | undefined>;
}

/** Each round lost means that somebody else got on; so many in a row are no coincidence any more. */
const ROUNDS_MAX = 1_000;
/** More resources than this in one process are looked at anew: that costs a request, nothing else. */
const KNOWN_MAX = 10_000;

export class ConditionalWrites<Mark> {
  readonly #known = new Map<string, Seen<Mark>>();

  async run<Answer>(source: TokenSource, step: Conditional<Mark, Answer>): Promise<Answer> {
    const { resource } = source;
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const seen = this.#known.get(resource) ?? (await step.read());
      // Right also with an old view: a highest never falls, so what was stale then is stale now. After a reset this guard refuses
      // too much until its process is restarted, and never too little: the write is conditional on the view.
      const token = admit(source, seen.highest);
      const done = await step.write(token, seen);
      if (done !== undefined) {
        this.#remember(resource, done.seen);
        return done.answer;
      }
      this.#known.delete(resource);
    }
    const detail = `others changed its highest token between read and write, ${ROUNDS_MAX} times in a row. Nothing was written`;
    throw GuardUnavailableError.from({ resource, detail, applied: "no" });
  }

  #remember(resource: string, seen: Seen<Mark>): void {
    if (this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#known.set(resource, seen);
  }
}
