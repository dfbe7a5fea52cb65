// Which source a guarded write uses: a lease that may act, given by the caller or taken from the
// surrounding lease.run(), for the right resource. Any other write is rejected and has no effect.

import { runUnder } from "../../async/context.ts";
import { LeaseInDoubtError, LeaseLostError, type LossReason } from "../../core/errors.ts";
import type { TokenSource } from "../../guards/guard.ts";
import { expect } from "../store-suite/harness.ts";
import { catchFailure, facts, type GuardBench, type GuardTopic, RESOURCE } from "./harness.ts";

/** The part of a lease that guards use. Its check() returns the token or throws `failure`. */
function lease(token: bigint, options: { resource?: string; failure?: Error } = {}): Held {
  const { resource = RESOURCE, failure } = options;
  const check = (): bigint => {
    if (failure !== undefined) throw failure;
    return token;
  };
  return { resource, token, check };
}

type Held = TokenSource & { check(): bigint };

function lost(reason: LossReason): Error {
  return LeaseLostError.from({ resource: RESOURCE, reason, token: 9n, confirmedAt: EPOCH });
}

const EPOCH = new Date(0);

async function expectUnchanged(bench: GuardBench): Promise<void> {
  const guard = await bench.open();
  expect(await bench.written(), [], "nothing was written");
  expect(await guard.highest(RESOURCE), undefined, "no highest was kept");
}

export const sources: GuardTopic = {
  "a write with a lease is recorded under the resource of the lease": async (bench) => {
    const guard = await bench.open();
    await guard.write(lease(3n), "written");
    expect(await bench.written(), ["written"], "admitted");
    expect(await guard.highest(RESOURCE), 3n, "with its token");
  },

  "S6: a lease that is expired, revoked, released or in doubt is rejected with its own error":
    async (bench) => {
      const guard = await bench.open();
      const inDoubt = LeaseInDoubtError.from({ resource: RESOURCE });
      for (const failure of [lost("expired"), lost("revoked"), lost("released"), inDoubt]) {
        const source = lease(9n, { failure });
        for (const act of [() => guard.write(source, "late"), () => guard.advance(source)]) {
          const { code } = (await catchFailure(act)) ?? {};
          expect(
            code,
            (failure as { code?: string }).code,
            "the caller gets the error of the lease",
          );
        }
        const inside = await catchFailure(() =>
          runUnder(source, async () => guard.write(undefined, "late")),
        );
        expect(inside?.code, (failure as { code?: string }).code, "also inside run()");
      }
      await expectUnchanged(bench);
    },

  "inside lease.run() the guard uses the lease of the context": async (bench) => {
    const guard = await bench.open();
    await runUnder(lease(4n), async () => {
      await Promise.resolve();
      await guard.write(undefined, "found");
      await guard.advance();
    });
    expect(await bench.written(), ["found"], "written under the lease of the context");
    expect(await guard.highest(RESOURCE), 4n, "with its token");
    await runUnder(lease(3n), async () => {
      const late = await catchFailure(() => guard.write(undefined, "late"));
      expect(late?.code, "STALE_TOKEN", "a stale lease of the context is rejected like any other");
      await guard.write(lease(5n), "given");
    });
    expect(await bench.written(), ["found", "given"], "a lease that is given comes first");
  },

  "outside lease.run() a write without a lease is an error": async (bench) => {
    const guard = await bench.open();
    const failure = await catchFailure(() => guard.write(undefined, "unguarded"));
    expect(failure?.code, "INVALID_ARGUMENT", "there is no lease to write under");
    expect(
      (await catchFailure(() => guard.advance()))?.code,
      "INVALID_ARGUMENT",
      "nor to advance to",
    );
    await expectUnchanged(bench);
  },

  "a guard that is bound to a resource rejects a lease of another resource": async (bench) => {
    const guard = await bench.open({ resource: RESOURCE });
    const other = lease(9n, { resource: "another" });
    for (const act of [
      () => guard.write(other, "wrong"),
      () => guard.advance(other),
      () => runUnder(other, async () => guard.write(undefined, "wrong")),
    ]) {
      expect((await catchFailure(act))?.code, "INVALID_ARGUMENT", "the wrong lease");
    }
    await expectUnchanged(bench);
    expect(await bench.written("another"), [], "nor under the other name");
    await runUnder(lease(2n), () => runUnder(other, async () => guard.write(undefined, "right")));
    expect(
      await bench.written(),
      ["right"],
      "of several leases in the context it uses the one of its resource",
    );
    expect(await guard.highest(RESOURCE), 2n, "with that lease's token");
  },

  "a token that is not a bigint, or is negative, zero or too large, is rejected": async (bench) => {
    const guard = await bench.open();
    for (const token of [1.5, 7, -1n, 0n, 2n ** 127n, "7", "x", Number.NaN, null, undefined]) {
      const source = { resource: RESOURCE, token } as unknown as TokenSource;
      for (const act of [() => guard.write(source, "bad"), () => guard.advance(source)]) {
        expect((await catchFailure(act))?.code, "INVALID_ARGUMENT", `a token of ${String(token)}`);
      }
    }
    await expectUnchanged(bench);
  },

  "an invalid source and an invalid resource name are rejected": async (bench) => {
    const guard = await bench.open();
    const bad = [
      null,
      "ledger",
      7n,
      {},
      facts(1n, ""),
      facts(1n, "a\0b"),
      facts(1n, "x".repeat(513)),
    ];
    for (const source of bad as unknown as TokenSource[]) {
      const failure = await catchFailure(() => guard.write(source, "bad"));
      expect(failure?.code, "INVALID_ARGUMENT", `a source of ${String(source)}`);
    }
    await expectUnchanged(bench);
  },
};
