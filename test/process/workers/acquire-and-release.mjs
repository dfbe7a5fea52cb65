// Acquires and releases as fast as possible until it is killed: first a resource of its own, then
// one that it shares with other processes and waits for only briefly. At any moment it is therefore
// likely to be granting, releasing, joining a queue or leaving one. It reports every grant before
// it continues.
import { connect } from "../../../dist/index.js";
import { hostMs, report, settings } from "./kit.mjs";

const { file, own, shared, timing } = settings;
const tenure = await connect(`sqlite:${file}`);
const asked = hostMs();
for (;;) {
  const mine = await tenure.acquire(own, { ...timing, waitMs: 30_000 });
  report("granted", { resource: own, token: mine.token, asked });
  await mine.release();
  const ours = await tenure.acquire(shared, { ...timing, waitMs: 2 }).catch(() => undefined);
  if (ours === undefined) continue;
  report("granted", { resource: shared, token: ours.token });
  await ours.release();
}
