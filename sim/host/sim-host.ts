// What the simulator needs of the real process.

import { closeWorld } from "./closed-world.ts";
import { eachTurn } from "./turns.ts";

export const simHost: {
  readonly closeWorld: () => () => void;
  readonly eachTurn: (step: () => boolean) => Promise<void>;
} = { closeWorld, eachTurn };
