// The sequential specification of one resource, for linearizable.ts: the possible answers to each
// request if requests are applied one after the other and no lease expires.
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
  /** The grant was not answered, so its token is unknown, except that it is higher than `token`. */
  readonly isTokenUnknown: boolean;
  readonly ended: readonly string[];
}

export const leaseSpec: SequentialModel<LeaseState, LeaseRequest, LeaseAnswer> = {
  initial: { token: 0n, held: undefined, isTokenUnknown: false, ended: [] },
  toKey: ({ token, held, isTokenUnknown, ended }) =>
    `${token} ${held?.attempt ?? "-"} ${isTokenUnknown} ${ended.join(",")}`,
  step: (state, request, answer) => {
    switch (request.do) {
      case "grant":
        return grant(state, request, answer);
      case "release":
        return state.held?.session === request.session
          ? end(state, request.token, answer, "released")
          : ifAnswer(answer, "notHeld", state);
      case "revoke":
        return end(state, request.token, answer, "revoked");
      case "withdraw": {
        const isHeld = state.held?.attempt === request.attempt;
        const without = { ...state, ended: [...state.ended, request.attempt] };
        return ifAnswer(answer, "withdrawn", isHeld ? free(state) : without);
      }
      case "read": {
        if (answer?.kind !== "read") return [state];
        if (state.held === undefined) return answer.token === undefined ? [state] : [];
        return answer.token === undefined ? [] : revealToken(state, answer.token);
      }
    }
  },
};

function grant(
  state: LeaseState,
  { session, attempt }: Extract<LeaseRequest, { do: "grant" }>,
  answer: LeaseAnswer | undefined,
): readonly LeaseState[] {
  if (state.held?.attempt === attempt)
    return answer?.kind === "granted"
      ? revealToken(state, answer.token)
      : ifAnswer(answer, "granted", state);
  if (state.ended.includes(attempt)) return ifAnswer(answer, "ended", state);
  if (state.held !== undefined) return ifAnswer(answer, "busy", state);
  const held = { session, attempt };
  if (answer === undefined) return [{ ...state, held, isTokenUnknown: true }];
  if (answer.kind !== "granted" || answer.token <= state.token) return [];
  return [{ ...state, held, token: answer.token, isTokenUnknown: false }];
}

/** An answer revealed the token of the current grant. */
function revealToken(state: LeaseState, token: bigint): readonly LeaseState[] {
  if (!state.isTokenUnknown) return token === state.token ? [state] : [];
  return token > state.token ? [{ ...state, token, isTokenUnknown: false }] : [];
}

/** If the token of the grant is unknown, the request may or may not name it. */
function end(
  state: LeaseState,
  token: bigint,
  answer: LeaseAnswer | undefined,
  kind: "released" | "revoked",
): readonly LeaseState[] {
  const hit = state.held === undefined ? [] : revealToken(state, token).map(free);
  const isMissed = hit.length === 0 || state.isTokenUnknown;
  return [
    ...hit.flatMap((next) => ifAnswer(answer, kind, next)),
    ...(isMissed ? ifAnswer(answer, "notHeld", state) : []),
  ];
}

function free(state: LeaseState): LeaseState {
  const ended = state.held === undefined ? state.ended : [...state.ended, state.held.attempt];
  return { ...state, held: undefined, isTokenUnknown: false, ended };
}

function ifAnswer<S>(
  answer: LeaseAnswer | undefined,
  kind: LeaseAnswer["kind"],
  state: S,
): readonly S[] {
  return answer === undefined || answer.kind === kind ? [state] : [];
}
