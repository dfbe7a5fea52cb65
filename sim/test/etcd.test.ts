// Goal: an attempt has at most one key in the queue and is granted at most once, however often its
// request arrives. Method: the store's transactions on the key space of the model.
import { expect, test } from "vitest";
import type { TxnAnswer } from "../../src/clients/etcd/kv.ts";
import { namesOf } from "../../src/clients/etcd/names.ts";
import {
  type GrantAnswer,
  grantTxn,
  moveTxn,
  readGrantAnswer,
  releaseTxn,
  revokeTxn,
  withdrawTxn,
} from "../../src/stores/etcd/grant.ts";
import { type Attempt, Session } from "../../src/stores/etcd/session.ts";
import { KeySpace, type TxnResult } from "../models/etcd/key-space.ts";

const names = namesOf("tenure/");

function world(): {
  space: KeySpace;
  begin(id: string, rank?: number): Attempt;
  ask(attempt: Attempt, options?: { queue?: boolean; released?: bigint }): GrantAnswer;
  keys(): string[];
} {
  const space = new KeySpace(
    () => 0,
    () => undefined,
  );
  const session = new Session("5e".repeat(16), names.session("5e".repeat(16)), undefined);
  const { key, lease } = session.names;
  space.grantLease(lease, 60);
  space.txn({ when: [], yes: [{ put: { key, value: Buffer.from("h"), lease } }], no: [] });
  return {
    space,
    begin: (attempt, rank) =>
      session.begin({ sessionId: session.id, resource: "r", attempt, rank, limitMs: 1 }, "{}"),
    ask: (attempt, { queue = true, released } = {}) => {
      const result = space.txn(grantTxn(names, attempt, { queue, released, wallMs: 5 }));
      const answer = readGrantAnswer(names, attempt, toAnswer(space, result));
      const { own } = answer;
      if (own !== undefined) Object.assign(attempt, { key: own.key, revision: own.createRevision });
      return answer;
    },
    keys: () =>
      space
        .range({ ...names.queue("r"), oldestFirst: true })
        .kvs.map((kv) => names.readQueueKey(kv.key)?.attempt ?? ""),
  };
}

function toAnswer(space: KeySpace, { succeeded, answers }: TxnResult): TxnAnswer {
  const header = { revision: space.revision, term: space.term };
  const inner = answers.map((answer) => {
    if (answer === "done") return { kvs: [], txn: undefined };
    return "txn" in answer
      ? { kvs: [], txn: toAnswer(space, answer.txn) }
      : { kvs: answer.kvs, txn: undefined };
  });
  return { header, succeeded, answers: inner };
}

test("a repeated request finds its own key, whether it holds or waits", () => {
  const { begin, ask, keys } = world();
  const [a, b] = [begin("a"), begin("b")];
  const first = ask(a);
  expect(first).toMatchObject({ isOldest: true });
  expect(ask(a)).toMatchObject({ isOldest: true, own: first.own });
  const second = ask(b);
  expect(second).toMatchObject({ isOldest: false });
  expect(ask(b)).toMatchObject({ isOldest: false, own: second.own });
  expect(keys()).toEqual(["a", "b"]);
});

test("an attempt whose name begins with that of another one has its own key", () => {
  const { begin, ask, keys } = world();
  for (const id of ["one.1", "one.10", "one", "one.1:"]) ask(begin(id));
  expect(keys()).toEqual(["one.1", "one.10", "one", "one.1:"]);
});

test("a busy attempt that does not wait leaves no key", () => {
  const { begin, ask, keys } = world();
  ask(begin("a"));
  expect(ask(begin("b"), { queue: false })).toMatchObject({ own: undefined, isOldest: false });
  expect(keys()).toEqual(["a"]);
});

test("S5: a late copy of a released, withdrawn or revoked attempt enters no queue", () => {
  for (const end of ["release", "withdraw", "revoke"]) {
    const { space, begin, ask, keys } = world();
    const attempt = begin("a");
    ask(attempt);
    attempt.unanswered = end === "revoke" ? 0 : 1;
    const request = { sessionId: "", resource: "r", attempt: "a", limitMs: 1 };
    const [holder] = space.range(names.queue("r")).kvs;
    if (holder === undefined) throw new Error("there is no holder");
    const token = holder.createRevision;
    if (end === "release") space.txn(releaseTxn(names, attempt, undefined));
    else if (end === "withdraw") space.txn(withdrawTxn(names, attempt.session, request));
    else space.txn(revokeTxn(names, holder, { ...request, token }));
    expect(keys()).toEqual([]);
    expect(ask(attempt), end).toMatchObject({ kind: "marked" });
    expect(keys()).toEqual([]);
  }
});

test("S5: a request for a lease that is held does not take the resource again after its end", () => {
  const { space, begin, ask, keys } = world();
  const attempt = begin("a");
  ask(attempt);
  attempt.state = "held";
  space.txn(releaseTxn(names, attempt, undefined));
  expect(ask(attempt)).toMatchObject({ own: undefined, isOldest: false });
  expect(keys()).toEqual([]);
});

test("a grant in the message of a release ignores the key that the release deletes, and no other", () => {
  const { begin, ask } = world();
  const [a, b, c] = [begin("a"), begin("b"), begin("c")];
  ask(a);
  expect(ask(b, { queue: false, released: a.revision })).toMatchObject({ isOldest: true });
  expect(ask(c, { queue: false, released: a.revision })).toMatchObject({ own: undefined });
});

test("an attempt that gives way has one key, a younger one, and keeps its place in its rank", () => {
  const { space, begin, ask, keys } = world();
  const [a, b] = [begin("a", 1), begin("b", 0)];
  ask(a);
  ask(b);
  const since = a.revision;
  for (let move = 0; move < 2; move += 1) {
    space.txn(moveTxn(names, a));
    expect(keys()).toEqual(["b", "a"]);
    const { own } = ask(a);
    expect(own && names.readQueueKey(own.key)).toMatchObject({ attempt: "a", rank: 1, since });
  }
  expect(a.revision).toBeGreaterThan(b.revision);
});
