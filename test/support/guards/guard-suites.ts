// Adapts the guards that open their own connection to the guard suite. Each guard of a test has its
// own connection, as in another process.

import type { Guard, GuardOptions, TokenSource } from "../../../src/guards/guard.ts";
import type { GuardHarness, GuardUnderTest } from "../../../src/testing/index.ts";
import type { RunningServer } from "../../servers/server.ts";

interface Closable extends Guard {
  close(): Promise<void>;
}

export interface OwnConnection<G extends Closable> {
  readonly name: string;
  server(): RunningServer;
  /** `place` is the same for all guards of one test and differs between tests. */
  open(place: string, options: GuardOptions | undefined): G;
  write(guard: G, source: TokenSource | undefined, line: Line): Promise<unknown>;
  written(place: string, resource: string): Promise<string[]>;
  /** Called before the first write. */
  prepare?(place: string): Promise<void>;
}

interface Line {
  readonly place: string;
  readonly resource: string;
  readonly text: string;
  /** A write that the resource itself rejects. */
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
