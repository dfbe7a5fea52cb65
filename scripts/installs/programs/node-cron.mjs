// Runs node-cron with its RunCoordinator on two machines, every second.
import cron from "node-cron";
import { nodeCronCoordinator } from "tenure/schedulers/node-cron";
import { connectMachine, onRun, onSkip, severalFires } from "./two-machines.mjs";

const machines = [await connectMachine("one"), await connectMachine("two")];
const tasks = machines.map((tenure) => {
  const runCoordinator = nodeCronCoordinator(tenure, { onSkip });
  return cron.schedule("* * * * * *", () => onRun(runCoordinator.lease("tick")), {
    name: "tick",
    distributed: true,
    runCoordinator,
  });
});
await severalFires();
for (const task of tasks) await task.destroy();
for (const tenure of machines) await tenure.close();
console.log("passed");
