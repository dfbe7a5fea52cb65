// The clock that all processes of this host share and that runs on in suspend, and the name of the boot it counts from.
// Linux: /proc/uptime, 10 ms steps, through a descriptor that is kept open. macOS: Node's own monotonic clock, which
// counts sleep there. Other platforms have no boot id that can be had without a native addon.

import { execFileSync } from "node:child_process";
import { openSync, readFileSync, readSync } from "node:fs";
import type { HostClock } from "../core/clock.ts";
import { StoreUnusableError } from "../core/errors.ts";

export function systemHostClock(platform: string = process.platform): HostClock {
  if (platform === "linux") return linuxHostClock();
  if (platform === "darwin") return darwinHostClock();
  return unsupportedHostClock(platform);
}

function linuxHostClock(): HostClock {
  const file = openSync("/proc/uptime", "r");
  const buffer = Buffer.alloc(64);
  return {
    stepMs: 10,
    bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
    now: () => {
      const length = readSync(file, buffer, 0, buffer.length, 0);
      // "35.42 61.30\n": the first number, in seconds with two decimals. Rounded, because 35.42 * 1000 is not whole.
      return Math.round(Number.parseFloat(buffer.toString("latin1", 0, length)) * 1000);
    },
  };
}

function darwinHostClock(): HostClock {
  return {
    stepMs: 1,
    bootId: execFileSync("sysctl", ["-n", "kern.bootsessionuuid"], { encoding: "utf8" }).trim(),
    now: () => Math.floor(Number(process.hrtime.bigint() / 1_000_000n)),
  };
}

/** Good enough to notice suspend; a store that needs the boot id gets the reason why it cannot have one. */
function unsupportedHostClock(platform: string): HostClock {
  return {
    stepMs: 1,
    now: () => Math.floor(Number(process.hrtime.bigint() / 1_000_000n)),
    get bootId(): string {
      throw new StoreUnusableError(
        `The embedded SQLite store needs the host's boot id, which Tenure can read on Linux and macOS, not on ${platform}. ` +
          "Use a store with a server, or memory: for tests.",
      );
    },
  };
}
