#!/usr/bin/env node
// A job that stands in the schedule of every machine, and of which each fire is run by one of them.
//
//   node examples/singleton-cron.mjs a        in as many terminals as you like, with other names; then kill one with -9
//
// TENURE_STORE is where they meet: a SQLite file for one machine, the URL of a server for several. Every run adds a line
// to report.txt, through a guard: what a run that was frozen and replaced still tries to write is refused.
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
  // A second run of the same fire could be told by its instant; here there is none.
  await report.append(lease, `${fire.toISOString()} ${name} ${lease.token}\n`);
  say(`ran the fire of ${fire.toISOString()} under token ${lease.token}`);
}

const onSkip = ({ reason, by }) => say(`not here: ${reason}${by === undefined ? "" : ` by ${by}`}`);
const failed = (error) => say(`failed: ${error.message}`);
const job = new Cron(
  SCHEDULE,
  { catch: failed },
  oncePerFire(tenure, "settlement", { onSkip }, settle),
);

// On SIGTERM: no new fire, let a run finish, release, exit with 0.
onShutdown(tenure, { graceMs: 10_000, before: () => job.stop() });
say(`is on the schedule ${SCHEDULE}`);
