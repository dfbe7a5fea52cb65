// All scenes, in the order in which they are best watched.

import { clockJump } from "./clock-jump.ts";
import { leaderGap } from "./leader-gap.ts";
import { pausedLeader } from "./paused-leader.ts";
import type { Scene } from "./scene.ts";
import { settlement } from "./settlement.ts";
import { staleScheduler } from "./stale-scheduler.ts";

export const SCENES: readonly Scene[] = [
  settlement,
  leaderGap,
  staleScheduler,
  pausedLeader,
  clockJump,
];
