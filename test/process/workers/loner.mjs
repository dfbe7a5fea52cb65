// A process with nothing else to do: no stdin, no socket, no timer of its own. Whether it stays alive is up to the
// library alone. The one timer here does not keep it alive; it only makes sure that nothing outlives a broken test.
import { connect } from "../../../dist/index.js";
import { settings, tell } from "./kit.mjs";

setTimeout(() => process.exit(99), 60_000).unref();

const { file, keepProcessAlive, timing } = settings;
const tenure = await connect(`sqlite:${file}`, { keepProcessAlive });

const plots = {
  /** Holds, and comes to the end of its program. */
  hold: async () => {
    const lease = await tenure.acquire("settlement", timing);
    tell("held", { token: lease.token });
  },
  /** Waits for a busy resource, then lets go. */
  wait: async () => {
    const lease = await tenure.acquire("settlement", {
      ...timing,
      waitMs: settings.waitMs ?? Infinity,
    });
    tell("held", { token: lease.token });
    await tenure.close();
    tell("closed");
  },
  /** Holds, and waits for the end of a doubt. */
  settle: async () => {
    const lease = await tenure.acquire("settlement", timing);
    tell("held", { token: lease.token });
    for (;;) {
      try {
        lease.check();
        await new Promise((resolve) => setTimeout(resolve, 5));
      } catch {
        tell("doubt");
        await lease.confirmed();
        tell("settled");
        await tenure.close();
        return;
      }
    }
  },
  /** Follows a resource until somebody holds it. */
  watch: async () => {
    tell("watching");
    for await (const { holder } of tenure.watch("settlement")) {
      if (holder === undefined) continue;
      tell("seen", { token: holder.token });
      break;
    }
    await tenure.close();
  },
  /** Loses its lease, and never looks at it. */
  lose: async () => {
    await tenure.acquire("settlement", timing);
    tell("held");
    const until = performance.now() + timing.ttlMs + 100;
    while (performance.now() < until);
    await new Promise((resolve) => setTimeout(resolve, 200));
    tell("lost unseen");
  },
};
await plots[settings.plot]();
tell("end");
