// Cases for the scheduler integrations, with every version that the peer ranges allow and one that
// they do not.
import type { Case } from "../lab.ts";
import { createPassingCase, createRejectedCase } from "./running.ts";

const croner = { group: "croner", program: "croner.mjs" };
const nodeCron = { group: "node-cron", program: "node-cron.mjs" };
const nest = { group: "nestjs", program: "nestjs.mjs" };
const nestPackages = (major: number, schedule: number): string[] => [
  `@nestjs/common@${major}`,
  `@nestjs/schedule@${schedule}`,
  `@nestjs/core@${major}`,
  // NestJS 9 requires this version, and every later one accepts it.
  "reflect-metadata@0.1",
  "rxjs@7",
];
const nestVersions = [
  [9, 3],
  [10, 4],
  [11, 5],
  [11, 6],
  [12, 12],
] as const;

export const SCHEDULERS: readonly Case[] = [
  ...nestVersions.map(([major, schedule]) =>
    createPassingCase(`${major}, schedule ${schedule}`, {
      ...nest,
      packages: nestPackages(major, schedule),
    }),
  ),
  createRejectedCase("8, schedule 2", {
    ...nest,
    packages: nestPackages(8, 2),
    required: "9.0 or newer",
  }),
  ...["9.0.0", "9", "10", "11"].map((version) =>
    createPassingCase(version, { ...croner, packages: [`croner@${version}`] }),
  ),
  createRejectedCase("8", { ...croner, packages: ["croner@8"], required: "9.0 or newer" }),
  ...["4.4", "4.6"].map((version) =>
    createPassingCase(version, { ...nodeCron, packages: [`node-cron@${version}`] }),
  ),
  ...["3", "4.3"].map((version) =>
    createRejectedCase(version, {
      ...nodeCron,
      packages: [`node-cron@${version}`],
      required: "4.4 or newer",
    }),
  ),
];
