// A planted bug: one change in the shipped code, or in a model's copy of it, of the kind that a
// programmer in a hurry might make.

export interface Mutant {
  readonly name: string;
  /** Path in the repository. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** The model that runs the changed code, if it is not the model that was asked for. */
  readonly store?: string;
  /** A test that detects the bug. It is run before any seed. */
  readonly test?: string;
  /** Why no test can detect the bug, if that is the case. */
  readonly equivalent?: string;
}
