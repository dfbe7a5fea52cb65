// Gets granted things as fast as it can until somebody kills it: a resource of its own, then one that it shares with
// others and for which it does not wait long. So at any instant it is likely to be inside a grant, a release, the
// joining or the leaving of a queue. It tells of every grant before it goes on.
import { connect } from "../../../dist/index.js";
import { hostMs, settings, tell } from "./kit.mjs";

const { file, own, shared, timing } = settings;
const tenure = await connect(`sqlite:${file}`);
const asked = hostMs();
for (;;) {
  const mine = await tenure.acquire(own, { ...timing, waitMs: 30_000 });
  tell("granted", { resource: own, token: mine.token, asked });
  await mine.release();
  const ours = await tenure.acquire(shared, { ...timing, waitMs: 2 }).catch(() => undefined);
  if (ours === undefined) continue;
  tell("granted", { resource: shared, token: ours.token });
  await ours.release();
}
