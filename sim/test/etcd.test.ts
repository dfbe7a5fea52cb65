// Goal: a grant request that is repeated after its answer was lost recognizes its own grant and
// does not enter the queue, although the record of each copy has another timestamp. Method: the
// store's transactions on the key space of the model.
import { expect, test } from "vitest";
import type { Txn, TxnAnswer } from "../../src/clients/etcd/kv.ts";
import type { Members } from "../../src/clients/etcd/members.ts";
import { namesOf } from "../../src/clients/etcd/names.ts";
import { StoreUnavailableError } from "../../src/core/errors.ts";
import { Attempts } from "../../src/stores/etcd/attempts.ts";
import { type GrantParts, grant } from "../../src/stores/etcd/grants.ts";
import type { Transactions } from "../../src/stores/etcd/transactions.ts";
import { ManualClock } from "../../src/testing/index.ts";
import { KeySpace, type TxnResult } from "../models/etcd/key-space.ts";

const names = namesOf("tenure/");
const sessionId = "5e".repeat(16);

function world(): { parts: GrantParts; clock: ManualClock; loseNext(): void; puts(): string[] } {
  const clock = new ManualClock();
  const put: string[] = [];
  const space = new KeySpace(
    () => clock.now(),
    ({ events }) => {
      for (const { isDelete, kv } of events) if (!isDelete) put.push(kv.key.toString());
    },
  );
  const { key, lease } = names.session(sessionId);
  space.grantLease(lease, 60);
  space.txn({ when: [], yes: [{ put: { key, value: Buffer.from("h"), lease } }], no: [] });
  put.length = 0;
  let isLost = false;
  const ask = async (transaction: Txn): Promise<{ answer: TxnAnswer; doubtful: boolean }> => {
    const answer = toAnswer(space, space.txn(transaction));
    if (!isLost) return { answer, doubtful: false };
    isLost = false;
    throw new StoreUnavailableError("The answer was lost.", { applied: "unknown" });
  };
  const members = {
    ask: (_rpc: unknown, transaction: Txn) => ask(transaction),
    call: async (_rpc: unknown, transaction: Txn) => (await ask(transaction)).answer,
  } as unknown as Members;
  const transactions = {
    ask: (_resource: string, transaction: Txn) => ask(transaction),
  } as unknown as Transactions;
  const attempts = new Attempts();
  return {
    parts: { members, names, attempts, transactions, clock, now: () => clock.now() },
    clock,
    loseNext: () => {
      isLost = true;
    },
    puts: () => put,
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

const request = { sessionId, resource: "r", attempt: "mine", holderId: "h", limitMs: 100 };

test.each([undefined, 17, { text: "}:9" }])(
  "a repeated request with the value %j recognizes its own grant",
  async (value) => {
    const { parts, clock, loseNext, puts } = world();
    const wish = { ...request, value, queue: true };
    loseNext();
    await expect(grant(parts, wish)).rejects.toThrow("The answer was lost.");
    await clock.advance(1_234);
    expect(await grant(parts, wish)).toEqual({ kind: "granted", token: 3n });
    expect(puts()).not.toContain(String(names.waiter("r", "mine")));
  },
);

test.each(["mine2", "mine:", "min"])(
  "another attempt of the same session, %j, enters the queue",
  async (attempt) => {
    const { parts, puts } = world();
    expect(await grant(parts, { ...request, queue: true })).toMatchObject({ kind: "granted" });
    const other = await grant(parts, { ...request, attempt, queue: true });
    expect(other).toEqual({ kind: "busy", holderId: "h" });
    expect(puts()).toContain(String(names.waiter("r", attempt)));
  },
);
