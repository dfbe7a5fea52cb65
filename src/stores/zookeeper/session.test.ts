// Goal: a place in the queue that comes late, after nobody wants it any more, is given back. Method: a link whose server loses
// the answer to a request, or carries it out when its attempt has been withdrawn already.

import { expect, test } from "vitest";
import { JuteReader, JuteWriter } from "../../clients/zookeeper/jute.ts";
import type { Link } from "../../clients/zookeeper/link.ts";
import { ERROR, type Message, OPCODE } from "../../clients/zookeeper/messages.ts";
import { namesOf, placePrefix, sessionName } from "../../clients/zookeeper/names.ts";
import { ConnectionLostError, type Reply } from "../../clients/zookeeper/wire.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { LeaseSession } from "./lease-session.ts";
import { KnownParents } from "./parents.ts";

const SESSION_ID = 7n;
const LIMIT_MS = 100;
const names = namesOf("/tenure");
const wish = { resource: "r", attempt: "a.1", sessionId: "a", holderId: "me", value: undefined };
/** As the server names it. */
const late = `${placePrefix(sessionName(SESSION_ID), wish.sessionId, wish.attempt)}0000000001`;

/** Only what a session needs. Every request for a place gets lost, or so it seems. */
class FakeLink {
  readonly place = "nowhere";
  readonly sessionId = SESSION_ID;
  readonly timeoutMs = 1_000;
  readonly isConnected = true;
  readonly children = new Set<string>();
  onEvent: () => void = () => undefined;
  onLost: () => void = () => undefined;

  mark(): object {
    return {};
  }

  dropSilent(): void {}

  async send(message: Message): Promise<Reply> {
    const body = new JuteWriter(256);
    message.write(body);
    if (message.opcode === OPCODE.getChildren2) return answer(listing([...this.children]));
    if (message.opcode === OPCODE.delete) {
      const name = new JuteReader(body.frame().subarray(4)).text().split("/").at(-1) ?? "";
      return answer(Buffer.alloc(0), this.children.delete(name) ? 0 : ERROR.noNode);
    }
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

test("a place that comes after its withdrawal goes with the next one", async () => {
  const link = new FakeLink();
  const session = new LeaseSession({
    link: link as unknown as Link,
    clock: new ManualClock(),
    names,
    acl: { scheme: "world", id: "anyone" },
    parents: new KnownParents(),
  });
  const withdraw = (): Promise<void> => session.withdraw(wish.resource, wish.attempt, LIMIT_MS);
  const asked = session.grant({ ...wish, queue: false, limitMs: LIMIT_MS });
  await expect(asked).rejects.toMatchObject({ applied: "unknown" });
  await withdraw();
  link.children.add(late);
  await withdraw();
  expect([...link.children]).toEqual([]);
  // As often as it is named.
  link.children.add(late);
  await withdraw();
  expect([...link.children]).toEqual([]);
});
