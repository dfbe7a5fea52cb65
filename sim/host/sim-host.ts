// What the simulator needs of the real process.

import { isolate } from "./isolation.ts";
import { eachTurn } from "./turns.ts";

export const simHost: {
  readonly isolate: () => () => void;
  readonly eachTurn: (step: () => boolean) => Promise<void>;
} = { isolate, eachTurn };
