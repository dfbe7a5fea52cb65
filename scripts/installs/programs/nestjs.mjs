// Runs two NestJS applications with @nestjs/schedule on one store. Decorators are applied by hand,
// because this file is not compiled.
import "reflect-metadata";
import { Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Cron, Interval, ScheduleModule } from "@nestjs/schedule";
import { OncePerFire, TENURE, TenureModule } from "tenure/schedulers/nestjs";
import { onRun, onSkip, severalFires, store } from "./two-machines.mjs";

let swept = 0;

async function application(holderId) {
  class Jobs {
    tick(lease) {
      onRun(lease);
    }
    sweep(lease) {
      lease.check();
      swept += 1;
    }
  }
  const decorate = (name, decorators) => {
    const method = Object.getOwnPropertyDescriptor(Jobs.prototype, name);
    const decorated = Reflect.decorate(decorators, Jobs.prototype, name, method);
    Object.defineProperty(Jobs.prototype, name, decorated);
  };
  decorate("tick", [Cron("* * * * * *", { name: "tick" }), OncePerFire("tick", { onSkip })]);
  decorate("sweep", [Interval("sweep", 1_000), OncePerFire("sweep", { everyMs: 1_000 })]);
  class App {}
  const tenureModule = TenureModule.forRoot({ store: store(), holderId });
  Module({ imports: [ScheduleModule.forRoot(), tenureModule], providers: [Jobs] })(App);
  const app = await NestFactory.createApplicationContext(App, { logger: ["error", "warn"] });
  if (app.get(TENURE).holderId !== holderId) throw new Error("TENURE is not the module's Tenure.");
  return app;
}

const applications = [await application("one"), await application("two")];
await severalFires();
if (swept === 0) throw new Error("The method with @Interval did not run.");
for (const app of applications) await app.close();
console.log("passed");
