// Opens the store on command, so that several processes can do so at the same moment. Acquires one
// lease and reports the result.
import { connect } from "../../../dist/index.js";
import { describeError, nextCommand, report, settings } from "./kit.mjs";

report("ready");
await nextCommand();
try {
  const tenure = await connect(`sqlite:${settings.file}`);
  const lease = await tenure.acquire(settings.resource, { ttlMs: 10_000 });
  report("opened", { token: lease.token });
  await lease.release();
} catch (error) {
  report("opened", { error: describeError(error) });
}
