// Formats a trace as text: one line per event, with its instant and its actor.

import type { Violation } from "./checkers/checker.ts";
import type { TraceEvent } from "./world/trace.ts";

/** Formats all events, or with `all: false` all except requests and lost notifications. */
export function timeline(
  events: readonly TraceEvent[],
  violations: readonly Violation[],
  options: { readonly all: boolean },
): string[] {
  const lines = events.flatMap((event) => {
    const isMinor = event.kind === "asked" || event.kind === "reportLost";
    const text = options.all || !isMinor ? describe(event) : "";
    return text === "" ? [] : [{ at: event.at, line: formatLine(event.at, event.who, text) }];
  });
  const violationLines = violations.map(({ at, invariant, message }) => ({
    at,
    line: formatLine(at, "!!!", `${invariant}: ${message}`),
  }));
  return [...lines, ...violationLines]
    .sort((one, other) => one.at - other.at)
    .map(({ line }) => line);
}

/** Formats the events around the first violation that concern the same resource. */
export function excerpt(
  events: readonly TraceEvent[],
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
  event: TraceEvent,
  violation: Violation,
): event is TraceEvent & { readonly resource: string } {
  return "resource" in event && violation.message.includes(event.resource);
}

function formatLine(at: number, who: string, text: string): string {
  return `${(at / 1_000).toFixed(3).padStart(9)} s  ${who.padEnd(8)} ${text}`;
}

function describe(event: TraceEvent): string {
  switch (event.kind) {
    case "storeGranted":
      return `grants ${event.resource} with ${event.token} to session ${short(event.session)}`;
    case "storeFreed":
      return `frees ${event.resource} ${event.token} (${event.how})`;
    case "reportLost":
      return "misses a change notification";
    case "storeKept":
      return `keeps session ${short(event.session)} until ${(event.until / 1_000).toFixed(3)} s`;
    case "storeExpired":
      return `ends session ${short(event.session)}, which expired at ${(event.until / 1_000).toFixed(3)} s`;
    case "storePassedOver":
      return `removes a waiter from the queue of ${event.resource}`;
    case "storeRestored":
      return `holds ${event.resource} ${event.token} again: the write that ended it was lost`;
    case "storeForgot":
      return "lost acknowledged writes, or its clock was set";
    case "gaveUp":
      return `sends the release of ${event.resource} ${event.token}`;
    case "endedSession":
      return `sends the end of session ${short(event.session)}`;
    case "opened":
      return `opened session ${short(event.session)}`;
    case "toldGone":
      return `learns that session ${short(event.session)} is gone`;
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
      return `learns that ${event.resource} ${event.token} has ended (${event.reason})`;
    case "releasedAs":
      return `release() of ${event.resource} ${event.token}: ${event.result}`;
    case "listens":
      return `notification connection: ${event.from > event.at ? "down or late" : "up"}`;
    case "queued":
      return `waits for ${event.resource}`;
    case "advanced":
      return `advances the guard of ${event.resource} to ${event.token}`;
    case "wrote":
      return describeWrite(event);
    case "fire":
      return `job at ${event.fire % 1_000_000}: ${event.step}, wall clock ${Math.round(event.wall) % 1_000_000}`;
    case "election":
      return `election: ${event.event} ${event.detail}`;
    case "failed":
      return `${event.what}: ${event.code}`;
    case "asked":
      return `requests ${event.what}`;
    case "fault":
      return `FAULT ${event.fault} (${event.detail})`;
    case "calm":
      return "CALM: no faults from now on";
    case "evening":
      return "SHUTDOWN: all programs close";
    case "started":
    case "closed":
    case "crashed":
      return event.kind;
  }
}

function describeWrite(event: Extract<TraceEvent, { kind: "wrote" }>): string {
  const where = `${event.guarded ? "guarded" : "plain"} ${event.resource}`;
  return `write to ${where} with ${event.token}: ${event.outcome}${event.stale ? ", stale" : ""}`;
}

function short(session: string): string {
  return session.slice(0, 6);
}
