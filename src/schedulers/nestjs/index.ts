// For NestJS 9 and later with @nestjs/schedule 3 and later: a module that connects, and a decorator
// for methods with @Cron or @Interval. The decorator wraps the method, so that a scheduled call
// runs it on one machine only.

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
import type { Lease } from "../../holder/lease.ts";
import { toLatestMs } from "../../once/occurrence.ts";
import type { OnceResult } from "../../once/once.ts";
import { systemParts } from "../../runtime/system.ts";
import type { OpenStore } from "../../stores/contract.ts";
import type { Tenure } from "../../tenure.ts";
import { checkFireOptions, FIRE_OPTIONS, type FireOptions, reportSkip } from "../run-options.ts";
import { findLastFire } from "./last-fire.ts";

export type { FireOptions, SkippedFire } from "../run-options.ts";

/** The injection token of the Tenure that TenureModule provides. */
export const TENURE: unique symbol = Symbol.for("tenure");

/** Injects the Tenure of TenureModule: `constructor(@InjectTenure() tenure: Tenure)`. */
export function InjectTenure(): PropertyDecorator & ParameterDecorator {
  return Inject(TENURE);
}

/** Options of TenureModule.forRoot(). */
export interface TenureModuleOptions extends ConnectOptions {
  /** A URL or a store, as for connect(). */
  readonly store: string | OpenStore;
}

/** Options of TenureModule.forRootAsync(). */
export interface TenureModuleAsyncOptions {
  /** Modules that export what the factory injects. @default none */
  readonly imports?: DynamicModule["imports"];
  /** Returns the options, or a promise of them. Called once, with the injected values. */
  // biome-ignore lint/suspicious/noExplicitAny: a narrower type would reject real factories
  readonly useFactory: (...injected: any[]) => TenureModuleOptions | Promise<TenureModuleOptions>;
  /** The injection tokens of the factory's arguments. @default none */
  readonly inject?: FactoryProvider["inject"];
}

const MODULE_OPTIONS: OptionNames<TenureModuleOptions> = { ...CONNECT_OPTIONS, store: true };
const ASYNC_OPTIONS: OptionNames<TenureModuleAsyncOptions> = {
  imports: true,
  useFactory: true,
  inject: true,
};

/** Connects when the application starts and closes when it shuts down. Global: import it once. */
export class TenureModule implements OnApplicationShutdown {
  readonly #tenure: Tenure;

  constructor(tenure: Tenure) {
    this.#tenure = tenure;
  }

  /** The module with these options. */
  static forRoot(options: TenureModuleOptions): DynamicModule {
    checkOptionNames("TenureModule", options, MODULE_OPTIONS);
    return TenureModule.forRootAsync({ useFactory: () => options });
  }

  /** The module with options from a factory, for example from a configuration service. */
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

  /** Nest calls this after @nestjs/schedule has stopped its jobs. */
  async onApplicationShutdown(): Promise<void> {
    shuttingDown.add(this.#tenure);
    await this.#tenure.close();
  }
}

// What `constructor(@InjectTenure() tenure)` does. Written out because this package is built
// without decorators.
Inject(TENURE)(TenureModule, undefined, 0);

/** Tenures of applications that are shutting down. A run that begins then is skipped silently. */
const shuttingDown = new WeakSet<Tenure>();

const TENURE_HERE = Symbol("tenure");
const REGISTRY_HERE = Symbol("registry of schedules");

interface Host {
  readonly [TENURE_HERE]: Tenure;
  readonly [REGISTRY_HERE]: SchedulerRegistry;
}

/** Options of @OncePerFire(). */
export interface NestFireOptions extends FireOptions {
  /**
   * For @Interval and @Timeout, which have no scheduled time: at most one run in this time, as in
   * oncePer(). @default none: the key is the name of a cron job
   */
  readonly everyMs?: number | undefined;
}

const NEST_FIRE_OPTIONS: OptionNames<NestFireOptions> = { ...FIRE_OPTIONS, everyMs: true };

/**
 * `@Cron("0 3 * * *", { name: "nightly" }) @OncePerFire("nightly")`: each scheduled time of the job
 * runs on one machine, under the lease on `key`, which is the first argument of the method. The key
 * is the name of the job, the same on every machine. With `everyMs`, for @Interval: at most one run
 * in that time. Do not use it for methods that are also called by hand: such a call counts as a
 * scheduled run.
 */
export function OncePerFire(key: string, options: NestFireOptions = {}): MethodDecorator {
  checkFireOptions("@OncePerFire()", options, NEST_FIRE_OPTIONS);
  if (options.everyMs !== undefined && options.windowMs !== undefined)
    throw new InvalidArgumentError(
      "@OncePerFire() takes `windowMs`, for a cron job, or `everyMs`, for an interval, but not both.",
    );
  checkNest();
  const { onSkip } = options;
  return (target, _name, descriptor) => {
    const method: unknown = descriptor.value;
    if (typeof method !== "function")
      throw new InvalidArgumentError("@OncePerFire belongs on a method.");
    Inject(TENURE)(target, TENURE_HERE);
    Inject(SchedulerRegistry)(target, REGISTRY_HERE);
    const wrapped = async function (this: Host, ...rest: unknown[]): Promise<unknown> {
      const work = (lease: Lease): unknown => method.call(this, lease, ...rest);
      const result = await runFire(this, key, options, work).catch((error: unknown) => {
        if (isTenureError(error, "CLOSED") && shuttingDown.has(this[TENURE_HERE])) return undefined;
        throw error;
      });
      if (result === undefined) return undefined;
      if (result.ran) return result.value;
      return void reportSkip(onSkip, { ...result, key });
    };
    // Decorators may stand in either order: metadata that @Cron left on the method is copied.
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

async function runFire(
  { [TENURE_HERE]: tenure, [REGISTRY_HERE]: registry }: Host,
  key: string,
  options: NestFireOptions,
  work: (lease: Lease) => unknown,
): Promise<OnceResult<unknown>> {
  const { onSkip: _o, everyMs, windowMs, ...lease } = options;
  if (everyMs !== undefined) return tenure.oncePer(key, { ...lease, everyMs }, work);
  if (!registry.doesExist("cron", key)) {
    throw new InvalidArgumentError(
      `@OncePerFire("${key}") finds no cron job of that name, so the method did not run. Name the ` +
        `job alike, @Cron("...", { name: "${key}" }); or, for @Interval, give \`everyMs\`: at most ` +
        "one run in that time.",
    );
  }
  const { cronTime } = registry.getCronJob(key);
  const { clock } = systemParts();
  const atMs = findLastFire(cronTime, clock.wallNow(), toLatestMs({ windowMs }));
  if (atMs === undefined) return { ran: false, reason: "late" };
  return tenure.once(key, { ...lease, windowMs, atMs }, work);
}
