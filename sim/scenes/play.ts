// Plays a scene: each take runs to its end in its own simulated world, while the real clocks,
// randomness and I/O of this process are blocked. Returns the record of each take with its numbers,
// and the expectations of the scene that were not met.

import type { Host } from "../world/world.ts";
import { measure, type Numbers } from "./measure.ts";
import type { Scene, Take } from "./scene.ts";
import { Stage } from "./stage.ts";
import type { Tale } from "./tale.ts";

export interface PlayedTake {
  readonly take: Take;
  readonly tale: Tale;
  readonly numbers: Numbers;
}

export interface Played {
  readonly scene: Scene;
  readonly takes: readonly PlayedTake[];
  /** The expectations that were not met. */
  readonly unmet: readonly string[];
}

export async function playScene(scene: Scene, host: Host): Promise<Played> {
  const takes: PlayedTake[] = [];
  for (const take of scene.takes) {
    const tale = await playTake(scene, take, host);
    takes.push({ take, tale, numbers: measure(tale, scene.endsAt) });
  }
  return { scene, takes, unmet: scene.expect(takes.map(({ numbers }) => numbers)) };
}

async function playTake(scene: Scene, take: Take, host: Host): Promise<Tale> {
  const reopen = host.isolate();
  try {
    const stage = new Stage(scene);
    take.play(stage);
    const { schedule, tale } = stage;
    const isOver = (): boolean => (schedule.nextAt ?? Number.POSITIVE_INFINITY) > scene.endsAt;
    await host.eachTurn(() => !isOver() && schedule.step());
    return tale;
  } finally {
    reopen();
  }
}
