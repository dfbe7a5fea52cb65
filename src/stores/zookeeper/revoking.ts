// Ending a lease that somebody else holds: its place is deleted and a notice left for its session, in one step, so that
// there is no moment at which the resource is free and its old holder could renew without being told.

import type { Call } from "../../clients/zookeeper/call.ts";
import { refusalOf } from "../../clients/zookeeper/failures.ts";
import {
  ERROR,
  getData,
  multi,
  readDataAndStat,
  readMulti,
  remove,
  setData,
} from "../../clients/zookeeper/messages.ts";
import type { Names } from "../../clients/zookeeper/names.ts";
import { deleted, expectOk } from "../../clients/zookeeper/nodes.ts";
import type { LeaseRef } from "../contract.ts";
import { lookAt } from "./reading.ts";
import { decodeNotices, encodeNotices } from "./record.ts";

/** True when it held this token and does no more. */
export async function revoke(call: Call, names: Names, ref: LeaseRef): Promise<boolean> {
  for (;;) {
    call.throwIfOver();
    const { holder } = await lookAt(call, names.parent(ref.resource));
    if (holder?.stat.czxid !== ref.token) return false;
    const node = names.noticesNode(holder.session);
    const reply = await call.send(getData(node));
    if (reply.error === ERROR.noNode) {
      // The session has just ended, and its lease with it; or somebody has deleted this node, and it cannot be told.
      if (await deleted(call, remove(holder.path))) return true;
      continue;
    }
    expectOk(reply, call);
    const { data, stat } = readDataAndStat(reply.body);
    const notices = encodeNotices([...decodeNotices(data), ref]);
    const answer = await call.send(
      multi([
        remove(holder.path),
        setData(node, notices, stat.version),
        // The next renewal finds this written by someone else, and so reads the notices.
        setData(names.sessionNode(holder.session), "", -1),
      ]),
    );
    const error = answer.error === 0 ? readMulti(answer.body).error : answer.error;
    if (error === 0) return true;
    // Another revocation or the holder's release came in between: look again.
    if (error !== ERROR.noNode && error !== ERROR.badVersion) throw refusalOf(error, call.place);
  }
}
