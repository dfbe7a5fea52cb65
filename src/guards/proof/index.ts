// Proofs that a token was really granted, for guards whose clients are not trusted: a signature made by the holder's side, or
// a query to the store. Without a proof, a client could present a huge token and lock every real holder out.

export type { AdvanceOptions, Guard, GuardOptions, TokenSource } from "../guard.ts";
export { type Bounded, boundedBy, type TokenIssuer } from "./bounded.ts";
export {
  type Key,
  type Signer,
  type SignerOptions,
  type SignOptions,
  signer,
  type VerifiedToken,
  type Verifier,
  type VerifierOptions,
  verifier,
} from "./signed.ts";
