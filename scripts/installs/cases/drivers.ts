// Cases for the client libraries of Redis and PostgreSQL, on real servers.
import type { Case, Lab } from "../lab.ts";
import { createPassingCase, createRejectedCase, type Plan } from "./running.ts";

function redis(library: "redis" | "ioredis", part = ""): Omit<Plan, "packages"> {
  return {
    group: library,
    program: "redis.mjs",
    env: async (lab: Lab) => ({ TENURE_URL: await lab.redisUrl(), LIBRARY: library, PART: part }),
  };
}

function postgres(library: "pg" | "postgres"): Omit<Plan, "packages"> {
  return {
    group: library,
    program: "postgres.mjs",
    env: async (lab: Lab) => ({ TENURE_URL: await lab.postgresUrl(), LIBRARY: library }),
  };
}

/** Runs the whole conformance suite with the oldest supported version. */
const conforms = (plan: Omit<Plan, "packages">, store: string, spec: string): Case =>
  createPassingCase(`${spec.split("@")[1]}, conformance`, {
    ...plan,
    packages: [spec],
    program: "conformance.mjs",
    env: async (lab) => ({ ...(await plan.env?.(lab)), STORES: store }),
  });

export const DRIVERS: readonly Case[] = [
  ...["4.6.0", "4", "5.0", "5", "6"].map((version) =>
    createPassingCase(version, { ...redis("redis"), packages: [`redis@${version}`] }),
  ),
  conforms(redis("redis"), "redis", "redis@4.6.0"),
  ...["url", "client", "guard"].map((part) =>
    createRejectedCase(`3 by ${part}`, {
      ...redis("redis", part),
      packages: ["redis@3"],
      required: "4.6 or newer",
    }),
  ),
  ...["5.0.0", "5", "6"].map((version) =>
    createPassingCase(version, { ...redis("ioredis"), packages: [`ioredis@${version}`] }),
  ),
  conforms(redis("ioredis"), "redis", "ioredis@5.0.0"),
  ...["url", "client", "guard"].map((part) =>
    createRejectedCase(`4 by ${part}`, {
      ...redis("ioredis", part),
      packages: ["ioredis@4"],
      required: "5.0 or newer",
    }),
  ),
  ...["8.7.0", "8"].map((version) =>
    createPassingCase(version, { ...postgres("pg"), packages: [`pg@${version}`] }),
  ),
  conforms(postgres("pg"), "postgres", "pg@8.7.0"),
  createRejectedCase("7", { ...postgres("pg"), packages: ["pg@7"], required: "8.7 or newer" }),
  ...["3.0.0", "3"].map((version) =>
    createPassingCase(version, { ...postgres("postgres"), packages: [`postgres@${version}`] }),
  ),
  conforms(postgres("postgres"), "postgres", "postgres@3.0.0"),
  createRejectedCase("1", {
    ...postgres("postgres"),
    packages: ["postgres@1"],
    required: "3.0 or newer",
  }),
];
