// Goal: every fact survives the way through text, and no text that another program could send
// causes an error. Method: properties, and malformed samples.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { SessionEvents } from "../contract.ts";
import { decodeFact, encodeFact, type Fact, SessionListeners } from "./facts.ts";

const REF = { resource: "r", token: 7n };
const FACTS: readonly Fact[] = [
  { kind: "granted", session: "s", grant: { ...REF, attempt: "a" } },
  { kind: "lost", session: "s", ref: REF },
  { kind: "wanted", session: "s", ref: REF },
];

test("a fact survives encoding and decoding", () => {
  for (const fact of FACTS) expect(decodeFact(encodeFact(fact))).toEqual(fact);
});

test("a text that is not a fact is ignored", () => {
  const samples = [
    "",
    "null",
    "{}",
    "[]",
    '["granted","s","r","7"]',
    '["granted","s","r","-7","a"]',
    '["lost","s","r",7]',
    '["lost","s",null,"7"]',
    '["lost",1,"r","7"]',
    '["other","s","r","7"]',
  ];
  for (const text of samples) expect(decodeFact(text), text).toBeUndefined();
  fc.assert(fc.property(fc.string(), (text) => decodeFact(text) === undefined));
  fc.assert(fc.property(fc.json(), (text) => decodeFact(text) === undefined));
});

test("a fact reaches only the session that it concerns, until that session ends", () => {
  const heard: string[] = [];
  const events: SessionEvents = {
    granted: ({ attempt }) => heard.push(`granted ${attempt}`),
    lost: ({ resource }) => heard.push(`lost ${resource}`),
    wanted: ({ resource }) => heard.push(`wanted ${resource}`),
  };
  const listeners = new SessionListeners();
  listeners.open("s", events);
  listeners.open("silent", undefined);
  for (const fact of FACTS) listeners.deliver(fact);
  for (const fact of FACTS) listeners.deliver({ ...fact, session: "silent" });
  listeners.end("s");
  for (const fact of FACTS) listeners.deliver(fact);
  expect(heard).toEqual(["granted a", "lost r", "wanted r"]);
});
