// Goal: a queue node that is created after its attempt was withdrawn is deleted. Method: a link
// whose server loses the answer to a request, or applies it after the withdrawal.

import { expect, test } from "vitest";
import { JuteReader, JuteWriter } from "../../clients/zookeeper/jute.ts";
import type { Link } from "../../clients/zookeeper/link.ts";
import { ERROR, type Message, OPCODE } from "../../clients/zookeeper/messages.ts";
import { namesOf, nodeBase, sessionName } from "../../clients/zookeeper/names.ts";
import { ConnectionLostError, type Reply } from "../../clients/zookeeper/wire.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { LeaseSession } from "./session.ts";

const SESSION_ID = 7n;
const LIMIT_MS = 100;
const names = namesOf("/tenure");
const wish = { resource: "r", attempt: "a.1", sessionId: "a", holderId: "me", value: undefined };
/** The name of the node as the server assigns it. */
const late = `${nodeBase(sessionName(SESSION_ID), wish.sessionId, wish.attempt)}_0000000001`;

/** The part of a link that a session needs. The answer to every creation of a node is lost. */
class FakeLink {
  readonly place = "nowhere";
  readonly sessionId = SESSION_ID;
  readonly timeoutMs = 1_000;
  readonly isConnected = true;
  readonly isOver = false;
  readonly children = new Set<string>();
  readonly sent: number[] = [];
  onEvent: () => void = () => undefined;
  onLost: () => void = () => undefined;

  async connected(): Promise<void> {}

  mark(): object {
    return {};
  }

  dropSilent(): void {}

  async send(message: Message): Promise<Reply> {
    this.sent.push(message.opcode);
    const body = new JuteWriter(256);
    message.write(body);
    if (message.opcode === OPCODE.sync) return answer(Buffer.alloc(0));
    if (message.opcode === OPCODE.getChildren2) return answer(listing([...this.children]));
    if (message.opcode === OPCODE.delete) {
      const name = new JuteReader(body.frame().subarray(4)).text().split("/").at(-1) ?? "";
      return answer(Buffer.alloc(0), this.children.delete(name) ? 0 : ERROR.noNode);
    }
    // The nodes of the session itself.
    if (message.opcode === OPCODE.create) return answer(Buffer.alloc(0));
    if (message.opcode === OPCODE.getData) return answer(Buffer.alloc(0), ERROR.noNode);
    throw new ConnectionLostError("broke");
  }
}

function listing(children: readonly string[]): Buffer {
  const body = new JuteWriter(256).int(children.length);
  for (const name of children) body.text(name);
  return body.frame().subarray(4);
}

function answer(bytes: Buffer, error = 0): Reply {
  return { zxid: 1n, error, body: new JuteReader(bytes) };
}

async function openSession(): Promise<{ link: FakeLink; session: LeaseSession }> {
  const link = new FakeLink();
  const session = new LeaseSession({
    link: link as unknown as Link,
    clock: new ManualClock(),
    names,
    acl: { scheme: "world", id: "anyone" },
    parents: new Set(),
  });
  await session.open(LIMIT_MS);
  return { link, session };
}

test("a node that is created after its withdrawal is deleted by the next one", async () => {
  const { link, session } = await openSession();
  const withdraw = (): Promise<unknown> => session.withdraw(wish, LIMIT_MS);
  const asked = session.grant({ ...wish, queue: false, limitMs: LIMIT_MS });
  await expect(asked).rejects.toMatchObject({ applied: "unknown" });
  await withdraw();
  link.children.add(late);
  await withdraw();
  expect([...link.children]).toEqual([]);
  // Each time that the attempt is named.
  link.children.add(late);
  await withdraw();
  expect([...link.children]).toEqual([]);
});

test("S4: after a lost answer the queue is read only when the lost request has been applied or rejected", async () => {
  const { link, session } = await openSession();
  const ask = (): Promise<unknown> =>
    session.grant({ ...wish, queue: true, limitMs: LIMIT_MS }).catch(() => "unknown");
  expect(await ask()).toBe("unknown");
  link.sent.length = 0;
  expect(await ask()).toBe("unknown");
  expect(link.sent.slice(0, 2)).toEqual([OPCODE.sync, OPCODE.getChildren2]);
});
