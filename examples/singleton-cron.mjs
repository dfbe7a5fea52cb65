#!/usr/bin/env node
// A job that every machine schedules, and that only one machine runs per scheduled time.
//
//   node examples/singleton-cron.mjs a     in several terminals, with different names
//
// TENURE_STORE is the shared store: a SQLite file for one machine, the URL of a server for several.
// Every run appends a line to report.txt through a guard. If a run was frozen and replaced, the
// guard rejects its late write.
import { Cron } from "croner";
import { connect, onShutdown } from "tenure";
import { fileGuard } from "tenure/guards/file";
import { oncePerFire } from "tenure/schedulers/croner";

const [name = `machine-${process.pid}`] = process.argv.slice(2);
const { TENURE_STORE = "sqlite:./tenure.db", SCHEDULE = "*/2 * * * * *" } = process.env;
const say = (text) => console.log(`${name}: ${text}`);

const tenure = await connect(TENURE_STORE, { holderId: name });
const report = fileGuard("./report.txt", { resource: "settlement" });

async function settle(lease, _job, fire) {
  await report.append(lease, `${fire.toISOString()} ${name} ${lease.token}\n`);
  say(`ran the job of ${fire.toISOString()} with token ${lease.token}`);
}

const onSkip = ({ reason, by }) => say(`skipped: ${reason}${by === undefined ? "" : ` by ${by}`}`);
const failed = (error) => say(`failed: ${error.message}`);
const job = new Cron(
  SCHEDULE,
  { catch: failed },
  oncePerFire(tenure, "settlement", { onSkip }, settle),
);

// On SIGTERM: start no new run, let the current one finish, release, exit with 0.
onShutdown(tenure, { graceMs: 10_000, before: () => job.stop() });
say(`is on the schedule ${SCHEDULE}`);
