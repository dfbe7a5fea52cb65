// The notices of one session: which of them renewals report, and how they are deleted from the node
// to which other processes append them. An append or a deletion is conditional on the version that
// was read, so it never removes a notice that its writer has not seen.

import type { Call } from "../../clients/zookeeper/call.ts";
import {
  ERROR,
  getData,
  type Message,
  readDataAndStat,
  setData,
} from "../../clients/zookeeper/messages.ts";
import type { LeaseRef } from "../contract.ts";
import { decodeNotices, encodeNotices, type Notice, toKey } from "./record.ts";

export class Notices {
  /** What the node contained when it was last read, or after the last deletion. */
  #found: readonly Notice[] = [];
  #version = 0;
  /** Acknowledged revocations that may still be in the node. */
  readonly #acknowledged = new Set<string>();

  /** The revocations that are not acknowledged yet. */
  get lost(): readonly LeaseRef[] {
    return this.#current("lost");
  }

  get wanted(): readonly LeaseRef[] {
    return this.#current("wanted");
  }

  acknowledge(refs: readonly LeaseRef[]): void {
    const known = new Set(this.#found.map(toKey));
    for (const ref of refs) {
      const key = toKey({ kind: "lost", session: "", ref });
      if (known.has(key)) this.#acknowledged.add(key);
    }
  }

  /** Records the contents of the node. Returns the notices that are new. */
  update(data: string, version: number): readonly Notice[] {
    const known = new Set(this.#found.map(toKey));
    const found = new Map(decodeNotices(data).map((notice) => [toKey(notice), notice]));
    this.#found = [...found.values()];
    this.#version = version;
    for (const key of this.#acknowledged) if (!found.has(key)) this.#acknowledged.delete(key);
    return this.#found.filter((notice) => !known.has(toKey(notice)));
  }

  /**
   * The write that deletes acknowledged revocations, and wishes for leases that the session does
   * not hold any more. Undefined if there is nothing to delete.
   */
  deletion(isHeld: (ref: LeaseRef) => boolean): { data: string; version: number } | undefined {
    const isCurrent = (notice: Notice): boolean =>
      notice.kind === "lost" ? !this.#acknowledged.has(toKey(notice)) : isHeld(notice.ref);
    const rest = this.#found.filter(isCurrent);
    if (rest.length === this.#found.length) return undefined;
    return { data: encodeNotices(rest), version: this.#version };
  }

  #current(kind: Notice["kind"]): readonly LeaseRef[] {
    const current = this.#found.filter((notice) => !this.#acknowledged.has(toKey(notice)));
    return current.filter((notice) => notice.kind === kind).map(({ ref }) => ref);
  }
}

/**
 * The write that appends a notice to the node. "absent": the session has ended, or its node was
 * deleted by hand. "present": the node already has this notice.
 */
export async function readAppend(
  call: Call,
  node: string,
  notice: Notice,
): Promise<Message | "absent" | "present"> {
  const reply = await call.ask(getData(node), ERROR.noNode);
  if (reply.error !== 0) return "absent";
  const { data, stat } = readDataAndStat(reply.body);
  const notices = decodeNotices(data);
  if (notices.some((each) => toKey(each) === toKey(notice))) return "present";
  return setData(node, encodeNotices([...notices, notice]), stat.version);
}
