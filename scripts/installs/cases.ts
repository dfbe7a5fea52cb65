// Every case of the matrix, in the order of the table.
import { DRIVERS } from "./cases/drivers.ts";
import { SCHEDULERS } from "./cases/schedulers.ts";
import type { Case } from "./lab.ts";

export const CASES: readonly Case[] = [...SCHEDULERS, ...DRIVERS];
