// Goal: what a place knows of others (that they were not alone when they came) is forgotten with the place itself, since names
// may be another's then. Method: a place whose server is a list of answers.
import { expect, test } from "vitest";
import type { Call } from "../../clients/zookeeper/call.ts";
import { JuteReader, JuteWriter, ProtocolError } from "../../clients/zookeeper/jute.ts";
import type { MultiAnswer } from "../../clients/zookeeper/messages.ts";
import { placePrefix, placesOf } from "../../clients/zookeeper/names.ts";
import type { Reply } from "../../clients/zookeeper/wire.ts";
import { KnownParents } from "./parents.ts";
import { Place } from "./place.ts";
import type { Steps } from "./steps.ts";

const PARENT = "/tenure/leases/r";
const prefix = placePrefix("0000000000000001", "s", "s.1");
const [first, second, own] = [
  "0000000000000002-.1_0000000000",
  "0000000000000003-.1_0000000001",
  `${prefix}0000000002`,
];
const line = placesOf([first, second, own]);
const [holder, behind] = line as [(typeof line)[0], (typeof line)[0]];

/** A place that was created beside others; its listings find it alone. */
function newPlace(): { place: Place; take(): Promise<unknown> } {
  const stat = { czxid: 7n, mzxid: 7n, mtimeMs: 0, version: 0, childCount: 1 };
  const taken: MultiAnswer = {
    error: 0,
    failedAt: -1,
    parts: [{ path: `${PARENT}/${own}` }, { stat }],
  };
  const parents = new KnownParents();
  parents.add(PARENT);
  const place = new Place({
    ...{ parent: PARENT, prefix, data: "", acl: { scheme: "world", id: "anyone" }, parents },
    steps: { take: () => Promise.resolve(taken) } as unknown as Steps,
  });
  return { place, take: () => place.take({} as Call, true) };
}

/** Answers every listing with these names. */
function listing(...names: string[]): Call {
  const body = new JuteWriter(256).int(names.length);
  for (const name of names) body.text(name);
  const bytes = body.frame().subarray(4);
  const reply = (): Reply => ({ zxid: 1n, error: 0, body: new JuteReader(bytes) });
  return { send: () => Promise.resolve(reply()) } as unknown as Call;
}

test("who stands between the first that was seen and this place was not alone, also when that has gone; of the first nobody knows", async () => {
  const { place, take } = newPlace();
  await take();
  expect(place.wasNotAlone(behind)).toBe(false);
  place.see(line);
  expect(place.wasNotAlone(behind)).toBe(true);
  expect(place.wasNotAlone(holder)).toBe(false);
  place.see(line.slice(1));
  expect(place.wasNotAlone(behind)).toBe(true);
});

test("S4: nothing is known any more when the place is not there, nor with a new one of the same name", async () => {
  const { place, take } = newPlace();
  await take();
  place.see(line);
  place.see([holder, behind]);
  expect(place.wasNotAlone(behind)).toBe(false);
  place.see(line);
  expect(await place.lookAgain(listing(first, second), true)).toBeUndefined();
  expect(place.wasNotAlone(behind)).toBe(false);
  place.see(line);
  await take();
  expect(place.wasNotAlone(behind)).toBe(false);
});

test("S7: an answer that lacks a part of the transaction is malformed, and grants nothing", async () => {
  const stat = { czxid: 7n, mzxid: 7n, mtimeMs: 0, version: 0, childCount: 1 };
  const answers: MultiAnswer["parts"][] = [[], [{}, { stat }], [{ path: `${PARENT}/${own}` }, {}]];
  for (const parts of answers) {
    const taken: MultiAnswer = { error: 0, failedAt: -1, parts };
    const parents = new KnownParents();
    parents.add(PARENT);
    const place = new Place({
      ...{ parent: PARENT, prefix, data: "", acl: { scheme: "world", id: "anyone" }, parents },
      steps: { take: () => Promise.resolve(taken) } as unknown as Steps,
    });
    await expect(place.take({} as Call, true)).rejects.toThrow(ProtocolError);
  }
});
