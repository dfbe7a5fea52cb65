// Runs croner on two machines, every second; then a job with `maxRuns` and `interval`, whose last
// run must count too.
import assert from "node:assert/strict";
import { Cron } from "croner";
import { oncePerFire } from "tenure/schedulers/croner";
import { connectMachine, onRun, onSkip, severalFires } from "./two-machines.mjs";

const machines = [await connectMachine("one"), await connectMachine("two")];
const failures = [];
const options = { catch: (error) => failures.push(error) };
const jobs = machines.map(
  (tenure) => new Cron("* * * * * *", options, oncePerFire(tenure, "tick", { onSkip }, onRun)),
);
await Promise.race([
  severalFires(),
  new Promise((_, reject) => {
    const timer = setInterval(() => failures.length > 0 && reject(failures[0]), 20);
    timer.unref();
  }),
]);
for (const job of jobs) job.stop();

const fires = [];
const last = new Cron(
  "* * * * * *",
  { maxRuns: 2, interval: 2, catch: (error) => failures.push(error) },
  oncePerFire(machines[0], "limited", (_lease, _job, fire) => fires.push(fire.getTime())),
);
while (fires.length + failures.length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
last.stop();
if (failures.length > 0) throw failures[0];
assert.ok(fires.every((fire) => fire % 1_000 === 0 && Math.abs(fire - Date.now()) < 30_000));
assert.ok(fires[1] - fires[0] >= 1_000, `${fires}`);

for (const tenure of machines) await tenure.close();
console.log("passed");
