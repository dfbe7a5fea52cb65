// Starts the candidates of one election, each as a separate process, on a shared SQLite file.
import type { Child, Told } from "./process-children.ts";
import { crew } from "./process-children.ts";

const CANDIDATE_TIMING = {
  ttlMs: 2_000,
  clockErrorMs: 50,
  roundTripMs: 350,
  renewEveryMs: 500,
};
/**
 * For tests in which the store must not skip a candidate as quiet, however busy the machine is. A
 * killed leader is replaced after 8 s.
 */
export const PATIENT_TIMING = {
  ttlMs: 8_000,
  clockErrorMs: 50,
  roundTripMs: 2_500,
  renewEveryMs: 1_000,
} as const;
const CANDIDATE = new URL("../../process/workers/candidate.mjs", import.meta.url);

export interface Candidates {
  folder(): string;
  /** Starts a candidate, and resolves when its election has started. */
  start(file: string, settings?: object): Promise<Child>;
}

export function useCandidates(): Candidates {
  const processes = crew();
  let count = 0;
  return {
    folder: () => processes.folder(),
    start: async (file, settings = {}) => {
      count += 1;
      const url = `sqlite:${file}`;
      const facts = { url, timing: CANDIDATE_TIMING, name: `c${count}`, ...settings };
      const child = processes.start(CANDIDATE, facts);
      await child.heard("started");
      return child;
    },
  };
}

/** Resolves when the candidate leads with a token above `after`. */
export function leads(child: Child, after = 0n): Promise<Told> {
  return child.heard("leads", ({ token }) => BigInt(String(token)) > after);
}
