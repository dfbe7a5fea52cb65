// For NestJS (9 and up) with @nestjs/schedule (3 and up): a module that connects, and a decorator beside @Cron or @Interval. The decorator wraps
// the method, so that whatever calls it on a schedule runs it on one machine only.

import {
  type DynamicModule,
  type FactoryProvider,
  Inject,
  type OnApplicationShutdown,
} from "@nestjs/common";
import { SchedulerRegistry } from "@nestjs/schedule";
import { findFault } from "../../clients/shared/libraries.ts";
import { CONNECT_OPTIONS, type ConnectOptions, connect } from "../../connect.ts";
import { InvalidArgumentError, isTenureError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { latestMs } from "../../once/fire.ts";
import { systemParts } from "../../runtime/system.ts";
import type { OpenStore } from "../../stores/contract.ts";
import type { Tenure } from "../../tenure.ts";
import { checkFireOptions, FIRE_OPTIONS, type FireOptions, reportSkip } from "../skipped.ts";
import { lastFire } from "./last-fire.ts";

/** The name under which Nest hands out the Tenure of TenureModule. */
export const TENURE: unique symbol = Symbol.for("tenure");

/** `constructor(@InjectTenure() tenure: Tenure)` */
export function InjectTenure(): PropertyDecorator & ParameterDecorator {
  return Inject(TENURE);
}

export interface TenureModuleOptions extends ConnectOptions {
  /** A URL or a store, as for connect(). */
  readonly store: string | OpenStore;
}

export interface TenureModuleAsyncOptions {
  readonly imports?: DynamicModule["imports"];
  // biome-ignore lint/suspicious/noExplicitAny: Nest injects whatever `inject` names; a narrower type refuses every real factory
  readonly useFactory: (...injected: any[]) => TenureModuleOptions | Promise<TenureModuleOptions>;
  readonly inject?: FactoryProvider["inject"];
}

const MODULE_OPTIONS: OptionNames<TenureModuleOptions> = { ...CONNECT_OPTIONS, store: true };
const ASYNC_OPTIONS: OptionNames<TenureModuleAsyncOptions> = {
  imports: true,
  useFactory: true,
  inject: true,
};

/** Connects when the application starts, and closes when it shuts down. Global: import it once. */
export class TenureModule implements OnApplicationShutdown {
  readonly #tenure: Tenure;

  constructor(tenure: Tenure) {
    this.#tenure = tenure;
  }

  static forRoot(options: TenureModuleOptions): DynamicModule {
    checkOptionNames("TenureModule", options, MODULE_OPTIONS);
    return TenureModule.forRootAsync({ useFactory: () => options });
  }

  static forRootAsync(options: TenureModuleAsyncOptions): DynamicModule {
    checkNest();
    checkOptionNames("TenureModule", options, ASYNC_OPTIONS);
    const { imports, inject, useFactory } = options;
    const useTenure = async (...injected: unknown[]): Promise<Tenure> => {
      const made = await useFactory(...injected);
      checkOptionNames("TenureModule", made, MODULE_OPTIONS);
      const { store, ...connectOptions } = made;
      return connect(store, connectOptions);
    };
    return {
      module: TenureModule,
      global: true,
      imports: imports ?? [],
      providers: [{ provide: TENURE, useFactory: useTenure, inject: inject ?? [] }],
      exports: [TENURE],
    };
  }

  /** After @nestjs/schedule has stopped its jobs, which it does in the step before. */
  async onApplicationShutdown(): Promise<void> {
    shuttingDown.add(this.#tenure);
    await this.#tenure.close();
  }
}

// What `constructor(@InjectTenure() tenure)` would do; written out, because this package is built without decorators.
Inject(TENURE)(TenureModule, undefined, 0);

/** Of applications that shut down: a fire that asks for its lease at that moment is not run, and that is no error. */
const shuttingDown = new WeakSet<Tenure>();

const TENURE_HERE = Symbol("tenure");
const REGISTRY_HERE = Symbol("registry of schedules");

interface Host {
  readonly [TENURE_HERE]: Tenure;
  readonly [REGISTRY_HERE]: SchedulerRegistry;
}

/**
 * `@Cron("0 3 * * *", { name: "nightly" }) @OncePerFire("nightly")`: each fire of the job is run on one machine, under the
 * lease on `key`, which is the method's first argument. The key is the name of the job, which every machine knows it by.
 * With `windowMs` and @Interval or @Timeout, which name no instant, one run in so long. Not for methods that are also called
 * by hand: such a call counts as a fire.
 */
export function OncePerFire(key: string, options: FireOptions = {}): MethodDecorator {
  checkFireOptions("@OncePerFire()", options, FIRE_OPTIONS);
  checkNest();
  const { onSkip, ...once } = options;
  return (target, _name, descriptor) => {
    const method: unknown = descriptor.value;
    if (typeof method !== "function")
      throw new InvalidArgumentError("@OncePerFire belongs on a method.");
    Inject(TENURE)(target, TENURE_HERE);
    Inject(SchedulerRegistry)(target, REGISTRY_HERE);
    const wrapped = async function (this: Host, ...rest: unknown[]): Promise<unknown> {
      const fire = fireOf(this[REGISTRY_HERE], key, options);
      if (fire === "late") return void reportSkip(onSkip, { ran: false, reason: "late", key });
      const tenure = this[TENURE_HERE];
      const result = await tenure
        .once(key, { ...once, ...fire }, (lease) => method.call(this, lease, ...rest))
        .catch((error: unknown) => {
          if (isTenureError(error, "CLOSED") && shuttingDown.has(tenure)) return undefined;
          throw error;
        });
      if (result === undefined) return undefined;
      if (result.ran) return result.value;
      return void reportSkip(onSkip, { ...result, key });
    };
    // Whichever of the two decorators stands above: what @Cron left on the method is found on the wrapper.
    for (const name of Reflect.getMetadataKeys(method))
      Reflect.defineMetadata(name, Reflect.getMetadata(name, method), wrapped);
    descriptor.value = wrapped as NonNullable<typeof descriptor.value>;
    return descriptor;
  };
}

function checkNest(): void {
  for (const name of ["@nestjs/common", "@nestjs/schedule"] as const) {
    const fault = findFault(name);
    if (fault !== undefined) throw new InvalidArgumentError(fault);
  }
}

type FireHere = { readonly atMs: number } | { readonly windowMs: number } | "late";

function fireOf(registry: SchedulerRegistry, key: string, options: FireOptions): FireHere {
  const { windowMs } = options;
  if (registry.doesExist("cron", key)) {
    const { cronTime } = registry.getCronJob(key);
    const { clock } = systemParts();
    const atMs = lastFire(cronTime, clock.wallNow(), latestMs(options));
    return atMs === undefined ? "late" : { atMs };
  }
  if (windowMs !== undefined) return { windowMs };
  throw new InvalidArgumentError(
    `@OncePerFire("${key}") finds no cron job of that name. Name it alike, @Cron("...", { name: "${key}" }); or, beside ` +
      "@Interval, give `windowMs`: one run in so long.",
  );
}
