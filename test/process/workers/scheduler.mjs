// One of several machines that run the same schedule, with the scheduler that the settings name.
// Its clock may be slow.
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
import { report, settings } from "./kit.mjs";

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

/** Reports each scheduled time that the adapter requests and each that runs. */
function instrument(tenure) {
  const once = tenure.once.bind(tenure);
  tenure.once = (key, options, work) => {
    const { atMs } = options;
    report("requested", { atMs });
    return once(key, options, (lease) => {
      report("ran", { atMs, token: lease.token });
      return work(lease);
    });
  };
  const close = tenure.close.bind(tenure);
  tenure.close = async () => {
    await close();
    report("closed");
  };
  return tenure;
}

const onSkip = ({ reason, by }) => report("skipped", { reason, by });

const machines = {
  "node-cron": async () => {
    const tenure = instrument(await connect(url, { holderId: name }));
    const coordinator = nodeCronCoordinator(tenure, { onSkip });
    const job = () => report("worked", { token: coordinator.lease("tick")?.check() });
    cron.schedule(EVERY_SECOND, job, {
      name: "tick",
      distributed: true,
      runCoordinator: coordinator,
    });
  },
  croner: async () => {
    const tenure = instrument(await connect(url, { holderId: name }));
    const job = (lease) => report("worked", { token: lease.check() });
    new Cron(EVERY_SECOND, oncePerFire(tenure, "tick", { onSkip }, job));
  },
  nestjs: async () => {
    class Jobs {
      tick(lease) {
        report("worked", { token: currentLease() === lease ? lease.check() : undefined });
      }
    }
    const decorators = [NestCron(EVERY_SECOND, { name: "tick" }), OncePerFire("tick", { onSkip })];
    // The decorators must work in both orders.
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
    instrument(app.get(TENURE));
  },
};

await machines[library]();
report("started");
