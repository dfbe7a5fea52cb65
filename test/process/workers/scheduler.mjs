// One machine of several that have the same schedule, through the scheduler that the settings name. Its clock may be late.
import "reflect-metadata";
import { Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Cron as NestCron, ScheduleModule } from "@nestjs/schedule";
import { Cron } from "croner";
import cron from "node-cron";
import { connect, currentLease } from "../../../dist/index.js";
import { oncePerFire } from "../../../dist/schedulers/croner/index.js";
import { OncePerFire, TENURE, TenureModule } from "../../../dist/schedulers/nestjs/index.js";
import { nodeCronCoordinator } from "../../../dist/schedulers/node-cron/index.js";
import { settings, tell } from "./kit.mjs";

const { library, url, name, lateMs = 0 } = settings;
const EVERY_SECOND = "* * * * * *";

const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() - lateMs);
    else super(...args);
  }
  static now() {
    return RealDate.now() - lateMs;
  }
};

/** Tells which fire was asked for and whether it was run, as the library named it. */
function overhear(tenure) {
  const once = tenure.once.bind(tenure);
  tenure.once = (key, options, work) => {
    const { atMs } = options;
    tell("asked", { atMs });
    return once(key, options, (lease) => {
      tell("ran", { atMs, token: lease.token });
      return work(lease);
    });
  };
  const close = tenure.close.bind(tenure);
  tenure.close = async () => {
    await close();
    tell("closed");
  };
  return tenure;
}

const onSkip = ({ reason, by }) => tell("skipped", { reason, by });

const machines = {
  "node-cron": async () => {
    const tenure = overhear(await connect(url, { holderId: name }));
    const coordinator = nodeCronCoordinator(tenure, { onSkip });
    const job = () => tell("worked", { token: coordinator.lease("tick")?.check() });
    cron.schedule(EVERY_SECOND, job, {
      name: "tick",
      distributed: true,
      runCoordinator: coordinator,
    });
  },
  croner: async () => {
    const tenure = overhear(await connect(url, { holderId: name }));
    const job = (lease) => tell("worked", { token: lease.check() });
    new Cron(EVERY_SECOND, oncePerFire(tenure, "tick", { onSkip }, job));
  },
  nestjs: async () => {
    class Jobs {
      tick(lease) {
        tell("worked", { token: currentLease() === lease ? lease.check() : undefined });
      }
    }
    const decorators = [NestCron(EVERY_SECOND, { name: "tick" }), OncePerFire("tick", { onSkip })];
    // Both orders are to work.
    if (settings.reversed) decorators.reverse();
    const method = Object.getOwnPropertyDescriptor(Jobs.prototype, "tick");
    const decorated = Reflect.decorate(decorators, Jobs.prototype, "tick", method);
    Object.defineProperty(Jobs.prototype, "tick", decorated);
    class App {}
    const imports = [
      ScheduleModule.forRoot(),
      TenureModule.forRootAsync({ useFactory: () => ({ store: url, holderId: name }) }),
    ];
    Module({ imports, providers: [Jobs] })(App);
    const app = await NestFactory.createApplicationContext(App, { logger: ["error", "warn"] });
    app.enableShutdownHooks();
    overhear(app.get(TENURE));
  },
};

await machines[library]();
tell("started");
