// Goal: one who waits finds out that it holds the resource already, by a copy of its request that came late, and leaves no place
// in line behind. Method: members and watches that are functions; found by the simulator (docs/simulator.md).

import { expect, test } from "vitest";
import type { KeyValue, Op, Txn, TxnAnswer } from "../../clients/etcd/kv.ts";
import type { Members } from "../../clients/etcd/members.ts";
import { namesOf } from "../../clients/etcd/names.ts";
import type { Watches, WatchListener } from "../../clients/etcd/watches.ts";
import { encodeRecord } from "../../core/record.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Attempts } from "./attempts.ts";
import { grant } from "./grants.ts";
import type { Transactions } from "./transactions.ts";
import { untilFree } from "./waiting.ts";

type Answer = TxnAnswer["answers"][number];

const names = namesOf("tenure/");
const sessionId = "5e".repeat(16);
const request = { sessionId, resource: "r", attempt: "mine", limitMs: 100 };

function holderKey(attempt: string, revision: bigint, value?: string): KeyValue {
  const record = value ?? encodeRecord({ holderId: "h", sessionId, attempt });
  return {
    ...{ key: names.holder("r"), value: Buffer.from(record), lease: 1n },
    ...{ createRevision: revision, modRevision: revision, version: 1n },
  };
}

/** One who waits for what `holder` holds; `tell` is what its watch of the holder's key hears. */
async function waiter(holder: KeyValue): Promise<{
  readonly state: { woken: boolean };
  readonly tell: (kv: KeyValue) => Promise<void>;
}> {
  const clock = new ManualClock();
  const answers = [{ kvs: [holder] }, { kvs: [] }];
  const answer = { header: { revision: 5n, term: 1n }, succeeded: true, answers };
  const members = { call: async () => answer } as unknown as Members;
  const tellers: WatchListener[] = [];
  const open: Watches["open"] = (_target, _from, teller) => {
    tellers.push(teller);
    return () => undefined;
  };
  const watches = { open } as unknown as Watches;
  const { signal } = new AbortController();
  const state = { woken: false };
  const parts = { members, names, clock, watches, attempts: new Attempts() };
  void untilFree(parts, { ...request, signal }).then(() => {
    state.woken = true;
  });
  await clock.advance(1);
  for (const teller of tellers) teller.onBegin?.(5n);
  const tell = async (kv: KeyValue): Promise<void> => {
    tellers[0]?.onEvents([{ isDelete: false, kv }]);
    await clock.advance(1);
  };
  return { state, tell };
}

test("the read finds that it is ours", async () => {
  expect((await waiter(holderKey("mine", 4n))).state.woken).toBe(true);
});

test("a watch tells that it became ours; one of another, or one that nobody can read, is no reason to wake", async () => {
  const { state, tell } = await waiter(holderKey("other", 4n));
  await tell(holderKey("third", 6n));
  await tell(holderKey("", 7n, "not a record"));
  expect(state.woken).toBe(false);
  await tell(holderKey("mine", 8n));
  expect(state.woken).toBe(true);
});

test("what a late copy was granted leaves no place in line", async () => {
  const asked: Txn[] = [];
  const found = (kv: KeyValue): Answer => ({ kvs: [kv], txn: undefined });
  const [held, session] = [found(holderKey("mine", 4n)), found(holderKey("", 1n, "session"))];
  const none: Answer = { kvs: [], txn: undefined };
  const reply = (transaction: Txn): TxnAnswer => {
    asked.push(transaction);
    const isLook = transaction.when.length > 0;
    const answers = isLook ? [session, none, held, none, held] : [held];
    return { header: { revision: 9n, term: 1n }, succeeded: !isLook, answers };
  };
  const members = {
    call: async (_rpc: unknown, transaction: Txn) => reply(transaction),
    ask: async (_rpc: unknown, transaction: Txn) => ({
      ...{ answer: reply(transaction), doubtful: false },
    }),
  } as unknown as Members;
  const attempts = new Attempts();
  // An answer got lost before, and since then it waits.
  Object.assign(attempts.at(sessionId, "mine"), { underWay: 1, since: 3n });
  const transactions = {} as Transactions;
  const clock = new ManualClock();
  const parts = { members, names, attempts, transactions, clock, now: () => 0 };
  const wish = { ...request, holderId: "h", value: undefined, queue: true };
  expect(await grant(parts, wish)).toEqual({ kind: "granted", token: 4n });
  const removed = (op: Op): string => ("remove" in op ? String(op.remove.key) : "");
  const last = asked.at(-1)?.yes.map(removed);
  expect(last).toContain(String(names.waiter("r", "mine")));
});
