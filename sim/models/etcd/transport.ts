// A client's connection to the model of etcd. Unary calls can get lost. A stream behaves like a TCP
// connection: messages arrive once and in order, possibly late, or the stream ends.

import { watch } from "../../../src/clients/etcd/rpc.ts";
import {
  type EtcdCall,
  EtcdLinkError,
  type EtcdStream,
  type EtcdStreamEvents,
  type EtcdTransport,
} from "../../../src/clients/etcd/transport.ts";
import type { Callee } from "../../world/call.ts";
import type { Network } from "../../world/network.ts";
import type { Program } from "../../world/program.ts";
import type { Schedule } from "../../world/schedule.ts";
import type { Trace } from "../../world/trace.ts";
import type { EtcdServer, Session } from "./server.ts";

export interface TransportParts {
  readonly schedule: Schedule;
  readonly trace: Trace;
  readonly network: Network;
  readonly client: Program;
  readonly callee: Callee;
  readonly server: EtcdServer;
  /** All open streams of the cluster. An outage ends them. */
  readonly streams: Set<() => void>;
}

/**
 * Limits how long a stream can stall. All streams and calls of a real client share one connection,
 * and if that stalls, calls time out and the store drops it. In the model calls travel separately,
 * so a stream must not stall for long by itself.
 */
const SILENT_MS = 1_000;

export class SimulatedTransport implements EtcdTransport {
  readonly place = "the model of etcd";
  readonly #parts: TransportParts;
  readonly #own = new Set<() => void>();

  constructor(parts: TransportParts) {
    this.#parts = parts;
  }

  call(path: string, message: Uint8Array): EtcdCall {
    const { network, client, callee, server } = this.#parts;
    let isOver = false;
    const answer = new Promise<Uint8Array>((resolve, reject) => {
      const reply = (settle: () => void): void =>
        network.send(callee.program, client, () => {
          isOver = true;
          settle();
        });
      let fate: "unknown" | "handled" | "refused" = "unknown";
      network.send(client, callee.program, () => {
        // TCP does not duplicate. Only the store makes copies, when it retries or asks a second
        // member.
        if (isOver || fate !== "unknown") return;
        fate = callee.isDown ? "refused" : "handled";
        if (callee.isDown) {
          reply(() => reject(new EtcdLinkError("connection refused", { sent: false })));
          return;
        }
        try {
          const bytes = server.handle(path, message);
          reply(() => resolve(bytes));
        } catch (error) {
          reply(() => reject(error));
        }
      });
    });
    // Cancelling does not recall what was sent.
    return { answer, cancel: () => undefined };
  }

  stream(path: string, _metadata: unknown, events: EtcdStreamEvents): EtcdStream {
    const { schedule, network, trace, client, callee, server, streams } = this.#parts;
    let isOpen = true;
    let session: Session | undefined;
    const finish = (reason: unknown): void => {
      if (!isOpen) return;
      close();
      events.onEnd(reason);
    };
    const close = (): void => {
      isOpen = false;
      session?.end();
      this.#own.delete(broken);
      streams.delete(broken);
    };
    const listens = (from: number): void => {
      if (path === watch.path && isOpen && !client.isDead)
        trace.note(client.name, { kind: "listens", from });
    };
    const broken = (): void => {
      listens(Number.POSITIVE_INFINITY);
      client.receive(() => finish(new EtcdLinkError("the connection broke", { sent: true })));
    };
    let inOrderFrom = schedule.now;
    const onLate = (arrivesAt: number): void => {
      if (arrivesAt <= inOrderFrom) return;
      inOrderFrom = arrivesAt;
      listens(arrivesAt);
    };
    listens(inOrderFrom);
    const down = network.openStream(callee.program, client, SILENT_MS, onLate);
    const up = network.openStream(client, callee.program, SILENT_MS, onLate);
    this.#own.add(broken);
    streams.add(broken);
    return {
      send: (message) => {
        up(() => {
          if (!isOpen) return;
          if (callee.isDown) {
            broken();
            return;
          }
          session ??= server.openWatches((answer) =>
            down(() => {
              if (isOpen) events.onMessage(answer);
            }),
          );
          session.receive(message);
        });
      },
      cancel: () => close(),
    };
  }

  reset(): void {
    for (const broken of [...this.#own]) broken();
  }

  close(): void {
    this.#own.clear();
  }
}
