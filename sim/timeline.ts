// A day as text: one line for each thing worth telling, with its instant and who did it.

import type { Violation } from "./checkers/checker.ts";
import type { Traced } from "./world/trace.ts";

/** Everything but the requests, or all of it. */
export function timeline(
  events: readonly Traced[],
  violations: readonly Violation[],
  options: { readonly all: boolean },
): string[] {
  const lines = events.flatMap((event) => {
    const isSmall = event.kind === "asked" || event.kind === "reportLost";
    const text = options.all || !isSmall ? tell(event) : "";
    return text === "" ? [] : [{ at: event.at, line: lineOf(event.at, event.who, text) }];
  });
  const wrong = violations.map(({ at, invariant, message }) => ({
    at,
    line: lineOf(at, "!!!", `${invariant}: ${message}`),
  }));
  return [...lines, ...wrong].sort((one, other) => one.at - other.at).map(({ line }) => line);
}

/** Only what lies around the first violation, and what is about the same resource. */
export function excerpt(
  events: readonly Traced[],
  violations: readonly Violation[],
  aroundMs: number,
): string[] {
  const first = violations[0];
  if (first === undefined) return timeline(events, violations, { all: false });
  const near = events.filter(({ at }) => at > first.at - aroundMs && at <= first.at + 1_000);
  const resource = near.findLast((event) => isAbout(event, first))?.resource;
  const wanted = near.filter((event) => !("resource" in event) || event.resource === resource);
  return timeline(resource === undefined ? near : wanted, [first], { all: false });
}

function isAbout(
  event: Traced,
  violation: Violation,
): event is Traced & { readonly resource: string } {
  return "resource" in event && violation.message.includes(event.resource);
}

function lineOf(at: number, who: string, text: string): string {
  return `${(at / 1_000).toFixed(3).padStart(9)} s  ${who.padEnd(8)} ${text}`;
}

function tell(event: Traced): string {
  switch (event.kind) {
    case "storeGranted":
      return `grants ${event.resource} with ${event.token} to session ${short(event.session)}`;
    case "storeFreed":
      return `frees ${event.resource} ${event.token} (${event.how})`;
    case "reportLost":
      return "is not told of a change";
    case "storeKept":
      return `session ${short(event.session)} lives until ${(event.until / 1_000).toFixed(3)} s`;
    case "storeExpired":
      return `ends session ${short(event.session)}, which lived until ${(event.until / 1_000).toFixed(3)} s`;
    case "storePassedOver":
      return `takes a place in line for ${event.resource} away, which was passed over`;
    case "storeRestored":
      return `has ${event.resource} ${event.token} held again, and forgot how it ended`;
    case "storeForgot":
      return "does not hold to what it said before";
    case "gaveUp":
      return `sends the release of ${event.resource} ${event.token}`;
    case "endedSession":
      return `sends the end of session ${short(event.session)}`;
    case "opened":
      return `opened session ${short(event.session)}`;
    case "toldGone":
      return `is told that session ${short(event.session)} is gone`;
    case "renewed":
      return `renewal of session ${short(event.session)}: ${event.outcome}`;
    case "held":
      return `holds ${event.resource} with ${event.token}`;
    case "acted":
      return `acts on ${event.resource} with ${event.token}, safe until ${(event.safeUntilTrue / 1_000).toFixed(3)} s`;
    case "workBegan":
      return `begins work on ${event.resource} ${event.token}`;
    case "workEnded":
      return `ends work on ${event.resource} ${event.token}`;
    case "drained":
      return `calls release() of ${event.resource} ${event.token}`;
    case "over":
      return `is told that ${event.resource} ${event.token} is over (${event.reason})`;
    case "releasedAs":
      return `release() of ${event.resource} ${event.token}: ${event.result}`;
    case "listens":
      return `its connection for messages is ${event.from > event.at ? "down or late" : "in order"}`;
    case "queued":
      return `waits for ${event.resource}`;
    case "advanced":
      return `advances the guard of ${event.resource} to ${event.token}`;
    case "wrote":
      return toldWrite(event);
    case "fire":
      return `fire ${event.fire % 1_000_000} is ${event.step} by its clock at ${Math.round(event.wall) % 1_000_000}`;
    case "election":
      return `election: ${event.event} ${event.detail}`;
    case "failed":
      return `${event.what}: ${event.code}`;
    case "asked":
      return `asks: ${event.what}`;
    case "fault":
      return `FAULT ${event.fault} (${event.detail})`;
    case "calm":
      return "CALM: no faults from here on";
    case "evening":
      return "EVENING: everybody closes";
    case "started":
    case "closed":
    case "crashed":
      return event.kind;
  }
}

function toldWrite(event: Extract<Traced, { kind: "wrote" }>): string {
  const where = `${event.guarded ? "guarded" : "plain"} ${event.resource}`;
  return `write to ${where} with ${event.token}: ${event.outcome}${event.stale ? ", stale" : ""}`;
}

function short(session: string): string {
  return session.slice(0, 6);
}
