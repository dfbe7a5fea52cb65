// The real process as a host for simulations: event loop turns and isolation.

import { isolate } from "./isolation.ts";
import { eachTurn } from "./turns.ts";

export const simHost: {
  readonly isolate: () => () => void;
  readonly eachTurn: (step: () => boolean) => Promise<void>;
} = { isolate, eachTurn };
