// What the benchmarks need of an engine. One entry per engine and client library: where its server comes from, how Tenure
// reaches it, the least that the same client could do for a lock, and the peers that do it their way.

import type { OpenStore } from "tenure";

/** The raw floor: as many bare round trips as a grant and a release, through the same client library. */
export interface Floor {
  /** Takes and gives back lock number `index`, without any of what makes a lease safe. */
  pair(index: number): Promise<void>;
  /** One bare round trip. */
  trip(): Promise<void>;
  close(): Promise<void>;
}

/** Another library that locks on the same engine. */
export interface Peer {
  readonly name: string;
  /** What it does less where nobody competes, and may be ahead for. */
  readonly lacks?: string;
  pair(index: number): Promise<void>;
  close(): Promise<void>;
}

export interface BenchServer extends AsyncDisposable {
  /** What connect() takes, in another process too. */
  readonly url: string;
  /** How many requests it has been asked since it started: those that a lease needs, no others. */
  requests(): Promise<number>;
}

export interface EngineBench<S extends BenchServer = BenchServer> {
  /** "Redis (ioredis)". */
  readonly name: string;
  start(): Promise<S>;
  /** The store as it is measured beside the floor; @default the server's URL */
  openStore?(server: S): OpenStore;
  /** Missing: there is no bare client to compare with. */
  openFloor?(server: S): Promise<Floor>;
  openPeers(server: S): Promise<readonly Peer[]>;
  /** How many times the pairs of each peer have to be reached; without it peers are for information. */
  readonly peerShare?: number;
  /** A peer, by its name in workers/engine.mjs, to compare 10,000 held locks with. */
  readonly holdingPeer?: string;
  /** Another library on the same engine: only the pairs differ. @default true */
  readonly isWhole?: boolean;
}
