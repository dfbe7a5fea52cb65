// Goal: only requests that may have been granted are recorded, separately for each session, and in
// bounded number. Method: requests that failed with different errors.
import { expect, test } from "vitest";
import { StoreUnavailableError } from "../../core/errors.ts";
import { UnacknowledgedGrants } from "./unacknowledged-grants.ts";

const asked = (resource: string, sessionId = "s"): Parameters<UnacknowledgedGrants["note"]>[0] => ({
  sessionId,
  resource,
  attempt: `${sessionId}.1`,
  limitMs: 100,
});
const failure = (applied: "no" | "unknown"): Error =>
  new StoreUnavailableError("down", { applied });

test("a request is recorded if its reply was lost, not if it was rejected or never sent", () => {
  const grants = new UnacknowledgedGrants();
  grants.note(asked("a"), failure("unknown"));
  grants.note(asked("b"), failure("no"));
  grants.note(asked("c"), new Error("refused"));
  grants.note(asked("d", "other"), failure("unknown"));
  expect(grants.resourcesOf("s")).toEqual(["a"]);
  grants.forget("s");
  expect(grants.resourcesOf("s")).toEqual([]);
  expect(grants.resourcesOf("other")).toEqual(["d"]);
});

test("only the newest thousand requests of a session are recorded", () => {
  const grants = new UnacknowledgedGrants();
  for (let index = 0; index < 1_000; index += 1) grants.note(asked(`${index}`), failure("unknown"));
  grants.note(asked("0"), failure("unknown"));
  grants.note(asked("new"), failure("unknown"));
  const known = grants.resourcesOf("s");
  expect(known).toHaveLength(1_000);
  expect(known).toContain("0");
  expect(known).not.toContain("1");
});
