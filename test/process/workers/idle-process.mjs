// A process without stdin, sockets or timers of its own, so only the library can keep it alive. The
// timer below does not keep it alive; it only ends the process if a test is broken.
import { connect } from "../../../dist/index.js";
import { report, settings } from "./kit.mjs";

setTimeout(() => process.exit(99), 60_000).unref();

const { file, keepProcessAlive, timing } = settings;
const tenure = await connect(`sqlite:${file}`, { keepProcessAlive });

const scenarios = {
  /** Acquires the lease and does nothing more. */
  hold: async () => {
    const lease = await tenure.acquire("settlement", timing);
    report("held", { token: lease.token });
  },
  /** Exits right after withLease(), without close(). */
  exit: async () => {
    await tenure.withLease("settlement", timing, (lease) => lease.check());
    report("worked");
    process.exit(0);
  },
  /** Waits for a busy resource, then closes. */
  wait: async () => {
    const lease = await tenure.acquire("settlement", {
      ...timing,
      waitMs: settings.waitMs ?? Infinity,
    });
    report("held", { token: lease.token });
    await tenure.close();
    report("closed");
  },
  /** Holds the lease until it is in doubt, and waits until it is confirmed. */
  confirm: async () => {
    const lease = await tenure.acquire("settlement", timing);
    report("held", { token: lease.token });
    for (;;) {
      try {
        lease.check();
        await new Promise((resolve) => setTimeout(resolve, 5));
      } catch {
        report("doubt");
        await lease.confirmed();
        report("confirmed");
        await tenure.close();
        return;
      }
    }
  },
  /** Watches a resource until a process holds it. */
  watch: async () => {
    if (settings.holds) {
      await tenure.acquire("mine", { ttlMs: 60_000 });
      // Until the store watches the file for its holder.
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    report("watching");
    for await (const { holder } of tenure.watch("settlement")) {
      if (holder === undefined) continue;
      report("seen", { token: holder.token });
      break;
    }
    await tenure.close();
  },
  /** Loses its lease and never uses the lease object. */
  lose: async () => {
    await tenure.acquire("settlement", timing);
    report("held");
    const until = performance.now() + timing.ttlMs + 100;
    while (performance.now() < until);
    await new Promise((resolve) => setTimeout(resolve, 200));
    report("lost");
  },
};
await scenarios[settings.scenario]();
report("end");
