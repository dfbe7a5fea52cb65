// Goal: only what may have been granted is remembered, of each session by itself, and not for ever more of it. Method: requests that
// failed in one way and another.
import { expect, test } from "vitest";
import { StoreUnavailableError } from "../../core/errors.ts";
import { Unheard } from "./unheard.ts";

const asked = (resource: string, sessionId = "s"): Parameters<Unheard["note"]>[0] => ({
  ...{ sessionId, resource, attempt: `${sessionId}.1`, limitMs: 100 },
});
const failure = (applied: "no" | "unknown"): Error =>
  new StoreUnavailableError("down", { applied });

test("an answer that did not come may have been a yes; a refusal was not, nor what was never sent", () => {
  const unheard = new Unheard();
  unheard.note(asked("a"), failure("unknown"));
  unheard.note(asked("b"), failure("no"));
  unheard.note(asked("c"), new Error("refused"));
  unheard.note(asked("d", "other"), failure("unknown"));
  expect(unheard.resourcesOf("s")).toEqual(["a"]);
  unheard.forget("s");
  expect(unheard.resourcesOf("s")).toEqual([]);
  expect(unheard.resourcesOf("other")).toEqual(["d"]);
});

test("the newest thousand of a session", () => {
  const unheard = new Unheard();
  for (let index = 0; index < 1_000; index += 1)
    unheard.note(asked(`${index}`), failure("unknown"));
  unheard.note(asked("0"), failure("unknown"));
  unheard.note(asked("new"), failure("unknown"));
  const known = unheard.resourcesOf("s");
  expect(known).toHaveLength(1_000);
  expect(known).toContain("0");
  expect(known).not.toContain("1");
});
