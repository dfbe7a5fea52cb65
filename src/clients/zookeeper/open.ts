// From settings to a server that is known to be fit: connect, create the nodes that everything else is below, write and read
// once. All of it within one limit, and whatever fails says which setting to look at.

import type { Clock } from "../../async/clock.ts";
import { DOCS } from "../../core/docs.ts";
import { StoreUnusableError } from "../../core/errors.ts";
import type { Call } from "./call.ts";
import { refusalOf } from "./failures.ts";
import { type Acl, CREATE, create, ERROR, getChildren2 } from "./messages.ts";
import type { Settings } from "./options.ts";
import { Reader } from "./reader.ts";

/** `needed` are the nodes that have to be there; created, with everything above them, where they are missing. */
export async function openReader(
  settings: Settings,
  clock: Clock,
  needed: readonly string[],
): Promise<Reader> {
  const { connectMs } = settings.link;
  const reader = new Reader({ ...settings.link, prefersLeader: false }, clock);
  try {
    await reader.run(connectMs, (call) => prepare(call, settings, needed));
    return reader;
  } catch (error) {
    reader.close(new Error("opening the store failed"));
    throw error;
  }
}

async function prepare(call: Call, settings: Settings, needed: readonly string[]): Promise<void> {
  await createAll(call, settings.names.root, needed, settings.acl);
  // What may be created may still not be read, where the nodes were there before.
  for (const path of needed) {
    const reply = await call.send(getChildren2(path));
    if (reply.error !== 0) throw refusal(reply.error, path, call);
  }
}

/** The root and the nodes below it, with everything above them. */
async function createAll(
  call: Call,
  root: string,
  needed: readonly string[],
  acl: Acl,
): Promise<void> {
  const parts = root.split("/").filter((part) => part !== "");
  const above = parts.map((_, index) => `/${parts.slice(0, index + 1).join("/")}`);
  const paths = [...above, ...needed];
  const flags = CREATE.persistent;
  const replies = await Promise.all(
    paths.map((path) => call.send(create({ path, data: "", acl, flags }))),
  );
  // Whoever may not create may still use what is there: only those that are needed have to be.
  for (const [index, { error }] of replies.entries()) {
    const path = paths[index] ?? "";
    const isNeeded = needed.includes(path);
    if (error === 0 || error === ERROR.nodeExists || (!isNeeded && error === ERROR.noAuth))
      continue;
    throw refusal(error, path, call);
  }
}

function refusal(error: number, path: string, call: Call): Error {
  if (error === ERROR.noAuth) {
    return new StoreUnusableError(
      `ZooKeeper at ${call.place} does not allow "${path}" to be created or read. Name the user and password it belongs to in the URL (zookeeper://user:password@host), or choose another root; ${DOCS}/stores/zookeeper.md has the permissions needed.`,
    );
  }
  if (error === ERROR.noNode) {
    return new StoreUnusableError(
      `The root of "${path}" is missing at ZooKeeper at ${call.place}, and may not be created there (or the server has a chroot of its own). Create it, or name another root.`,
    );
  }
  return refusalOf(error, call.place);
}
