// Opens the store at the very moment it is told to, gets one lease, and tells how that went.
import { connect } from "../../../dist/index.js";
import { factsOf, nextCommand, settings, tell } from "./kit.mjs";

tell("ready");
await nextCommand();
try {
  const tenure = await connect(`sqlite:${settings.file}`);
  const lease = await tenure.acquire(settings.resource, { ttlMs: 10_000 });
  tell("opened", { token: lease.token });
  await lease.release();
} catch (error) {
  tell("opened", { error: factsOf(error) });
}
