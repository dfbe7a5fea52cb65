// The guards that make their own connection, brought into the form of the guard suite: each guard of a test has a
// connection of its own, as another process would.

import type { Guard, GuardOptions, TokenSource } from "../../../src/guards/guard.ts";
import type { GuardHarness, GuardUnderTest } from "../../../src/testing/index.ts";
import type { RunningServer } from "../../servers/server.ts";

interface Closable extends Guard {
  close(): Promise<void>;
}

export interface OwnConnection<G extends Closable> {
  readonly name: string;
  server(): RunningServer;
  /** `place` is the same for all guards of one test, and no other test's. */
  open(place: string, options: GuardOptions | undefined): G;
  write(guard: G, source: TokenSource | undefined, line: Line): Promise<unknown>;
  written(place: string, resource: string): Promise<string[]>;
  /** Before the first write. */
  prepare?(place: string): Promise<void>;
}

interface Line {
  readonly place: string;
  readonly resource: string;
  readonly text: string;
  /** The write has to be refused by the resource itself. */
  readonly fail: boolean;
}

let places = 0;

export function onOwnConnections<G extends Closable>(subject: OwnConnection<G>): GuardUnderTest {
  return {
    name: subject.name,
    rollsBack: true,
    create: async (): Promise<GuardHarness> => {
      places += 1;
      const place = `t${places}`;
      const opened: G[] = [];
      await subject.prepare?.(place);
      return {
        open: (options) => {
          const guard = subject.open(place, options);
          opened.push(guard);
          return {
            advance: (source) => guard.advance(source),
            highest: (resource) => guard.highest(resource),
            write: async (source, text, { fail = false } = {}) => {
              const resource = source?.resource ?? "ledger";
              await subject.write(guard, source, { place, resource, text, fail });
            },
          };
        },
        written: (resource) => subject.written(place, resource),
        restart: async () => {
          await subject.server().kill();
          await subject.server().start();
        },
        close: async () => {
          await Promise.all(opened.map((guard) => guard.close()));
        },
      };
    },
  };
}
