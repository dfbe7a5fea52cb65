// Between a program and its store: every answer arrives in a turn of the program, a flush later. So what is answered to a
// program that was stopped in its transaction waits until it goes on, and to one that was killed nothing is answered.

import type { Store } from "../../../src/stores/contract.ts";
import type { Network } from "../../world/network.ts";
import type { Program } from "../../world/program.ts";
import type { Schedule } from "../../world/schedule.ts";

export interface NearParts {
  readonly program: Program;
  readonly schedule: Schedule;
  readonly network: Network;
}

export function nearSide(store: Store, { program, schedule, network }: NearParts): Store {
  const arriving = <T>(answer: Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      const arrive = (settle: () => void): void =>
        void schedule.after(network.drawLocalDelayMs(), () => program.receive(settle));
      answer.then(
        (value) => arrive(() => resolve(value)),
        (error: unknown) => arrive(() => reject(error)),
      );
    });
  return {
    guarantees: store.guarantees,
    openSession: (request) => arriving(store.openSession(request)),
    grant: (request) => arriving(store.grant(request)),
    renew: (request) => arriving(store.renew(request)),
    release: (request) => arriving(store.release(request)),
    withdraw: (request) => arriving(store.withdraw(request)),
    endSession: (request) => arriving(store.endSession(request)),
    revoke: (request) => arriving(store.revoke(request)),
    untilFree: (request) => arriving(store.untilFree(request)),
    read: (request) => arriving(store.read(request)),
    list: (request) => arriving(store.list(request)),
    watch: (request) => store.watch(request),
    close: () => store.close(),
  };
}
