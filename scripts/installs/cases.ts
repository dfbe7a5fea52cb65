// All cases of `npm run test:installs`, in the order of its table.
import { DRIVERS } from "./cases/drivers.ts";
import { JEST } from "./cases/jest.ts";
import { PACKING } from "./cases/packing.ts";
import { COMMON_JS, OTHER_RUNTIMES } from "./cases/runtimes.ts";
import { SCHEDULERS } from "./cases/schedulers.ts";
import { SQLITE } from "./cases/sqlite.ts";
import { TYPESCRIPT } from "./cases/typescript.ts";
import type { Case } from "./lab.ts";

export const CASES: readonly Case[] = [
  ...PACKING,
  ...SCHEDULERS,
  ...DRIVERS,
  ...SQLITE,
  COMMON_JS,
  ...JEST,
  ...TYPESCRIPT,
  ...OTHER_RUNTIMES,
];
