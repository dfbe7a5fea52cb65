// What a planted bug is made of: one place of the shipping code, or of a model's copy of it, and what a hurried hand might have
// written there.

export interface Mutant {
  readonly name: string;
  /** Path in the repository. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** The model that runs the changed code, where the one that was asked for does not. */
  readonly store?: string;
  /** The test that holds the line, where no seed can see it: it is run when no seed did. */
  readonly test?: string;
  /** Why no test can notice it, where that is so. */
  readonly equivalent?: string;
}
