// Goal: an attempt is granted the resource exactly when its key is the oldest, in whatever order
// answers and events arrive, and the holder learns of the next waiter. Method: a client and watches
// that are functions, and a clock that the test moves.
import { expect, test } from "vitest";
import type { EtcdClient } from "../../clients/etcd/client.ts";
import type { KeyValue, Txn } from "../../clients/etcd/kv.ts";
import { namesOf } from "../../clients/etcd/names.ts";
import type { Watches, WatchListener } from "../../clients/etcd/watches.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import type { Grant } from "../contract.ts";
import type { Notes } from "./notes.ts";
import { type Attempt, Session } from "./session.ts";
import { Queues } from "./wait.ts";

const names = namesOf("tenure/");

function toKey(attempt: string, createRevision: bigint): KeyValue {
  const key = names.queueKey({ resource: "r", attempt, rank: undefined, since: undefined });
  const revisions = { createRevision, modRevision: createRevision };
  return { key, value: Buffer.alloc(0), lease: 7n, ...revisions };
}

function world(): {
  clock: ManualClock;
  queues: Queues;
  grants: Grant[];
  notes: string[];
  /** What the next read of the queue finds. */
  state: { kvs: readonly KeyValue[]; revision: bigint; reads: number };
  attempt(id: string, revision: bigint): Attempt;
  begin(revision: bigint): void;
  remove(id: string, revision: bigint): void;
} {
  const clock = new ManualClock();
  const grants: Grant[] = [];
  const notes: string[] = [];
  const state = { kvs: [] as readonly KeyValue[], revision: 0n, reads: 0 };
  const client = {
    call: async (_rpc: unknown, question: Txn | object) => {
      if ("yes" in question)
        for (const op of question.yes) if ("put" in op) notes.push(String(op.put.value));
      if (!("yes" in question)) state.reads += 1;
      return { header: { revision: state.revision }, kvs: state.kvs };
    },
  } as unknown as EtcdClient;
  let listener: WatchListener | undefined;
  const open: Watches["open"] = (_target, _from, given) => {
    listener = given;
    return () => undefined;
  };
  const session = new Session("s", names.session("s"), {
    granted: (grant) => grants.push(grant),
    lost: () => undefined,
    wanted: () => undefined,
  });
  const watches = { open } as unknown as Watches;
  const queues = new Queues({
    client,
    names,
    watches,
    notes: { held: () => undefined } as unknown as Notes,
    clock,
  });
  return {
    clock,
    queues,
    grants,
    notes,
    state,
    attempt: (id, revision) => {
      const request = { sessionId: "s", resource: "r", attempt: id, limitMs: 1 };
      const attempt = session.begin(request, "{}");
      session.queued(attempt);
      return Object.assign(attempt, { key: toKey(id, revision).key, revision });
    },
    begin: (revision) => listener?.onBegin?.(revision),
    remove: (id, revision) => {
      const kv = { ...toKey(id, 0n), modRevision: revision };
      listener?.onEvents([{ isDelete: true, kv }]);
    },
  };
}

test("an attempt holds when every older key is deleted, and not before", () => {
  const { queues, attempt, begin, remove, grants } = world();
  const mine = attempt("mine", 4n);
  const kvs = [toKey("holder", 2n), toKey("other", 3n), toKey("mine", 4n)];
  expect(queues.join(mine, kvs, 4n)).toBe(false);
  begin(4n);
  remove("other", 5n);
  remove("unknown", 6n);
  expect(grants).toEqual([]);
  remove("holder", 7n);
  expect(grants).toEqual([{ resource: "r", token: 4n, attempt: "mine" }]);
  expect(mine.state).toBe("held");
});

test("a deletion that is reported before the answer to a request counts", () => {
  const { queues, attempt, begin, remove } = world();
  queues.join(attempt("first", 3n), [toKey("holder", 2n), toKey("first", 3n)], 3n);
  begin(3n);
  queues.leave(attempt("first", 3n));
  remove("first", 5n);
  remove("holder", 6n);
  const kvs = [toKey("holder", 2n), toKey("first", 3n), toKey("mine", 4n)];
  expect(queues.join(attempt("mine", 4n), kvs, 4n)).toBe(true);
});

test("an older read does not replace a newer one", () => {
  const { queues, attempt, begin, remove, grants } = world();
  const kvs = [toKey("holder", 2n), toKey("mine", 4n)];
  queues.join(attempt("mine", 4n), kvs, 4n);
  begin(4n);
  queues.update("r", [toKey("holder", 2n), toKey("mine", 4n)], 8n);
  queues.update("r", [toKey("early", 1n), toKey("holder", 2n), toKey("mine", 4n)], 5n);
  remove("holder", 9n);
  expect(grants).toHaveLength(1);
});

test("the queue is read if anything was written before the watch began, and only then", async () => {
  const { clock, queues, attempt, begin, grants, state } = world();
  queues.join(attempt("mine", 4n), [toKey("holder", 2n), toKey("mine", 4n)], 4n);
  begin(4n);
  await clock.advance(1);
  expect(state.reads).toBe(0);
  Object.assign(state, { kvs: [toKey("mine", 4n)], revision: 9n });
  begin(9n);
  await clock.advance(1);
  expect(state.reads).toBe(1);
  expect(grants).toHaveLength(1);
});

test("an attempt whose key was deleted by another program does not wait any more", () => {
  const { queues, attempt, grants } = world();
  const mine = attempt("mine", 4n);
  queues.join(mine, [toKey("holder", 2n), toKey("mine", 4n)], 4n);
  queues.update("r", [toKey("holder", 2n)], 5n);
  expect(mine.session.waiting.has(mine)).toBe(false);
  queues.update("r", [], 6n);
  expect(grants).toEqual([]);
});

test("only the next waiter notifies the holder, after a moment, and again if another one is next", async () => {
  const { clock, queues, attempt, begin, remove, notes } = world();
  const [next, last] = [attempt("next", 3n), attempt("last", 4n)];
  queues.join(next, [toKey("holder", 2n), toKey("next", 3n)], 3n);
  queues.join(last, [toKey("holder", 2n), toKey("next", 3n), toKey("last", 4n)], 4n);
  begin(4n);
  await clock.advance(40);
  expect(notes).toEqual([]);
  await clock.advance(20);
  expect(notes).toEqual(["2"]);
  queues.leave(next);
  remove("next", 5n);
  await clock.advance(60);
  expect(notes).toEqual(["2", "2"]);
});
