// Reads of answers that the store and the guard share.

import type { Call } from "./call.ts";
import { refusalOf } from "./failures.ts";
import { ERROR, type Message } from "./messages.ts";
import type { Reply } from "./wire.ts";

/** Sends a removal. True if the node existed. */
export async function deleted(call: Call, removal: Message): Promise<boolean> {
  const reply = await call.send(removal);
  if (reply.error === ERROR.noNode || reply.error === ERROR.badVersion) return false;
  expectOk(reply, call);
  return true;
}

export function expectOk(reply: Reply, call: Call): void {
  if (reply.error !== 0) throw refusalOf(reply.error, call.place);
}
