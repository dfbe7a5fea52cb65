// Delivers every answer and event of the SQLite store in a turn of the program, one flush later. A
// program that was stopped in its transaction therefore receives the answer when it resumes, and a
// killed program receives none.

import type { SessionEvents, Store } from "../../../src/stores/contract.ts";
import type { Network } from "../../world/network.ts";
import type { Program } from "../../world/program.ts";
import type { Schedule } from "../../world/schedule.ts";

export interface DeliveryParts {
  readonly program: Program;
  readonly schedule: Schedule;
  readonly network: Network;
}

export function deliverInTurns(store: Store, { program, schedule, network }: DeliveryParts): Store {
  const arrive = (settle: () => void): void =>
    void schedule.after(network.drawLocalDelayMs(), () => program.receive(settle));
  const deliver = <T>(answer: Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      answer.then(
        (value) => arrive(() => resolve(value)),
        (error: unknown) => arrive(() => reject(error)),
      );
    });
  const deliverEvents = (events: SessionEvents): SessionEvents => ({
    granted: (grant) => arrive(() => events.granted(grant)),
    lost: (ref) => arrive(() => events.lost(ref)),
    wanted: (ref) => arrive(() => events.wanted(ref)),
  });
  return {
    guarantees: store.guarantees,
    openSession: (request) => {
      const events = request.events && deliverEvents(request.events);
      return deliver(store.openSession({ ...request, events }));
    },
    grant: (request) => deliver(store.grant(request)),
    renew: (request) => deliver(store.renew(request)),
    release: (request) => deliver(store.release(request)),
    withdraw: (request) => deliver(store.withdraw(request)),
    endSession: (request) => deliver(store.endSession(request)),
    revoke: (request) => deliver(store.revoke(request)),
    read: (request) => deliver(store.read(request)),
    list: (request) => deliver(store.list(request)),
    watch: (request) => store.watch(request),
    close: () => store.close(),
  };
}
