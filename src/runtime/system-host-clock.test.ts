// Goal: the host's boot clock, its boot id, and the randomness and name of this process are
// correct. Method: the real ones of this machine, compared with other sources of the operating
// system.
import { hostname, uptime } from "node:os";
import { describe, expect, test } from "vitest";
import { StoreUnusableError } from "../core/errors.ts";
import { defaultHolderId, systemParts } from "./system.ts";
import { systemHostClock } from "./system-host-clock.ts";
import { systemRandom } from "./system-random.ts";

describe("the boot clock", () => {
  test("it never goes back", () => {
    const clock = systemHostClock();
    let last = clock.now();
    for (let reading = 0; reading < 2_000; reading += 1) {
      const now = clock.now();
      expect(now).toBeGreaterThanOrEqual(last);
      last = now;
    }
  });

  test("it agrees with the uptime of the operating system, in whole milliseconds", () => {
    const clock = systemHostClock();
    const before = uptime() * 1_000;
    const shown = clock.now();
    const after = uptime() * 1_000;
    // os.uptime() is coarse: 10 ms or 1 s, depending on the platform.
    expect(shown).toBeGreaterThanOrEqual(before - 1_000);
    expect(shown).toBeLessThanOrEqual(after + 1_000);
    expect(Number.isInteger(shown)).toBe(true);
    expect(clock.stepMs).toBeGreaterThan(0);
  });

  test("two clocks of one host show the same time and the same boot", () => {
    const [one, other] = [systemHostClock(), systemHostClock()];
    expect(Math.abs(one.now() - other.now())).toBeLessThan(1_000);
    expect(one.bootId).toBe(other.bootId);
    expect(one.bootId).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i);
  });

  test("a platform without a boot id has a clock, and only reading the id fails", () => {
    const clock = systemHostClock("win32");
    const first = clock.now();
    expect(clock.now()).toBeGreaterThanOrEqual(first);
    expect(() => clock.bootId).toThrow(StoreUnusableError);
    expect(() => clock.bootId).toThrow(/Linux and macOS, not on win32. Use a store with a server/);
  });
});

describe("the parts of this process", () => {
  test("they are created once", () => {
    expect(systemParts()).toBe(systemParts());
    expect(systemParts().clock.now()).toBeGreaterThan(0);
  });

  test("the default holder id names host and process", () => {
    expect(defaultHolderId()).toBe(`${hostname()}/${process.pid}`);
  });

  test("ids are 32 hex digits and differ; random numbers lie in [0, 1)", () => {
    const ids = Array.from({ length: 1_000 }, () => systemRandom.id());
    expect(new Set(ids).size).toBe(1_000);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/);
    const draws = Array.from({ length: 1_000 }, () => systemRandom.next());
    expect(Math.min(...draws)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...draws)).toBeLessThan(1);
  });
});
