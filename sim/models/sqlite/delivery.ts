// Delivers every answer of the SQLite store in a turn of the program, one flush later. A program
// that was stopped in its transaction therefore receives the answer when it resumes, and a killed
// program receives none.

import type { Store } from "../../../src/stores/contract.ts";
import type { Network } from "../../world/network.ts";
import type { Program } from "../../world/program.ts";
import type { Schedule } from "../../world/schedule.ts";

export interface DeliveryParts {
  readonly program: Program;
  readonly schedule: Schedule;
  readonly network: Network;
}

export function deliverInTurns(store: Store, { program, schedule, network }: DeliveryParts): Store {
  const deliver = <T>(answer: Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      const arrive = (settle: () => void): void =>
        void schedule.after(network.drawLocalDelayMs(), () => program.receive(settle));
      answer.then(
        (value) => arrive(() => resolve(value)),
        (error: unknown) => arrive(() => reject(error)),
      );
    });
  const untilFree = store.untilFree?.bind(store);
  return {
    guarantees: store.guarantees,
    openSession: (request) => deliver(store.openSession(request)),
    grant: (request) => deliver(store.grant(request)),
    renew: (request) => deliver(store.renew(request)),
    release: (request) => deliver(store.release(request)),
    withdraw: (request) => deliver(store.withdraw(request)),
    endSession: (request) => deliver(store.endSession(request)),
    revoke: (request) => deliver(store.revoke(request)),
    ...(untilFree && { untilFree: (request) => deliver(untilFree(request)) }),
    read: (request) => deliver(store.read(request)),
    list: (request) => deliver(store.list(request)),
    watch: (request) => store.watch(request),
    close: () => store.close(),
  };
}
