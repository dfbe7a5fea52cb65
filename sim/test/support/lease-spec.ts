// The sequential rule of one resource of a store, without time: what each request may answer when requests are done one
// after the other and no ttl ends.
import type { SequentialModel } from "./linearizable.ts";

export type LeaseRequest =
  | { readonly do: "grant"; readonly session: string; readonly attempt: string }
  | { readonly do: "release"; readonly session: string; readonly token: bigint }
  | { readonly do: "withdraw"; readonly session: string; readonly attempt: string }
  | { readonly do: "revoke"; readonly token: bigint }
  | { readonly do: "read" };

export type LeaseAnswer =
  | { readonly kind: "granted"; readonly token: bigint }
  | { readonly kind: "busy" | "ended" | "released" | "notHeld" | "revoked" | "withdrawn" }
  | { readonly kind: "read"; readonly token: bigint | undefined };

interface LeaseState {
  readonly token: bigint;
  readonly held: { readonly session: string; readonly attempt: string } | undefined;
  /** Granted without anybody having heard of it: the token is not known, only that it is higher. */
  readonly isTokenOpen: boolean;
  readonly ended: readonly string[];
}

export const leaseSpec: SequentialModel<LeaseState, LeaseRequest, LeaseAnswer> = {
  initial: { token: 0n, held: undefined, isTokenOpen: false, ended: [] },
  keyOf: ({ token, held, isTokenOpen, ended }) =>
    `${token} ${held?.attempt ?? "-"} ${isTokenOpen} ${ended.join(",")}`,
  step: (state, request, answer) => {
    switch (request.do) {
      case "grant":
        return granted(state, request, answer);
      case "release":
        return state.held?.session === request.session
          ? ended(state, request.token, answer, "released")
          : when(answer, "notHeld", state);
      case "revoke":
        return ended(state, request.token, answer, "revoked");
      case "withdraw": {
        const isHeld = state.held?.attempt === request.attempt;
        const without = { ...state, ended: [...state.ended, request.attempt] };
        return when(answer, "withdrawn", isHeld ? free(state) : without);
      }
      case "read": {
        if (answer?.kind !== "read") return [state];
        if (state.held === undefined) return answer.token === undefined ? [state] : [];
        return answer.token === undefined ? [] : known(state, answer.token);
      }
    }
  },
};

function granted(
  state: LeaseState,
  { session, attempt }: Extract<LeaseRequest, { do: "grant" }>,
  answer: LeaseAnswer | undefined,
): readonly LeaseState[] {
  if (state.held?.attempt === attempt)
    return answer?.kind === "granted" ? known(state, answer.token) : when(answer, "granted", state);
  if (state.ended.includes(attempt)) return when(answer, "ended", state);
  if (state.held !== undefined) return when(answer, "busy", state);
  const held = { session, attempt };
  if (answer === undefined) return [{ ...state, held, isTokenOpen: true }];
  if (answer.kind !== "granted" || answer.token <= state.token) return [];
  return [{ ...state, held, token: answer.token, isTokenOpen: false }];
}

/** Somebody saw the token of the present grant. */
function known(state: LeaseState, token: bigint): readonly LeaseState[] {
  if (!state.isTokenOpen) return token === state.token ? [state] : [];
  return token > state.token ? [{ ...state, token, isTokenOpen: false }] : [];
}

/** Where nobody knows the token yet, it may or may not be the one that is meant. */
function ended(
  state: LeaseState,
  token: bigint,
  answer: LeaseAnswer | undefined,
  kind: "released" | "revoked",
): readonly LeaseState[] {
  const hit = state.held === undefined ? [] : known(state, token).map(free);
  const isMissed = hit.length === 0 || state.isTokenOpen;
  return [
    ...hit.flatMap((next) => when(answer, kind, next)),
    ...(isMissed ? when(answer, "notHeld", state) : []),
  ];
}

function free(state: LeaseState): LeaseState {
  const ended = state.held === undefined ? state.ended : [...state.ended, state.held.attempt];
  return { ...state, held: undefined, isTokenOpen: false, ended };
}

function when<S>(
  answer: LeaseAnswer | undefined,
  kind: LeaseAnswer["kind"],
  state: S,
): readonly S[] {
  return answer === undefined || answer.kind === kind ? [state] : [];
}
