// Proofs that a token was really granted, for guards with untrusted clients: a signature of the
// issuer, or a query to the store. Without a proof, a client could present a huge token and lock
// out every real holder.

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
