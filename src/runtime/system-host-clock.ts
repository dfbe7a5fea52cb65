// The boot clock, which all processes of this host share and which continues during suspend, and
// the id of the boot from which it counts. Linux: /proc/uptime in 10 ms steps, through a descriptor
// that stays open. macOS: Node's own monotonic clock, which counts suspend there. On other
// platforms the boot id is not available without a native addon.

import { execFileSync } from "node:child_process";
import { openSync, readFileSync, readlinkSync, readSync, statfsSync } from "node:fs";
import type { HostClock } from "../async/clock.ts";
import { StoreUnusableError } from "../core/errors.ts";

export function systemHostClock(platform: string = process.platform): HostClock {
  if (platform === "linux") return linuxHostClock();
  if (platform === "darwin") return darwinHostClock();
  return unsupportedHostClock(platform);
}

/** The statfs type of the kernel's own /proc. */
const PROC_FILE_SYSTEM = 0x9fa0;
/** The initial time namespace, in which processes start by default. The kernel fixes its number. */
const FIRST_TIME_NAMESPACE = "time:[4026531834]";

function linuxHostClock(): HostClock {
  const file = openSync("/proc/uptime", "r");
  const buffer = Buffer.alloc(64);
  let bootId: string | undefined;
  return {
    stepMs: 10,
    get bootId(): string {
      bootId ??= linuxBootId();
      return bootId;
    },
    now: () => {
      const length = readSync(file, buffer, 0, buffer.length, 0);
      // "35.42 61.30\n": the first number is in seconds with two decimals. Rounded, because
      // 35.42 * 1000 is not a whole number.
      return Math.round(Number.parseFloat(buffer.toString("latin1", 0, length)) * 1000);
    },
  };
}

/**
 * The id includes the time namespace. A namespace shifts /proc/uptime by an offset, so readings in
 * two namespaces cannot be compared, like those of two boots. The offset is included too, because
 * the kernel reuses the number of a namespace that has ended.
 */
function linuxBootId(): string {
  refuseForeignUptime(statfsSync("/proc/uptime").type);
  const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  const namespace = timeNamespace();
  if (namespace === FIRST_TIME_NAMESPACE) return boot;
  const offsets = readFileSync("/proc/self/timens_offsets", "utf8").trim().split(/\s+/).join(" ");
  return `${boot} ${namespace} ${offsets}`;
}

function refuseForeignUptime(type: number): void {
  if (type === PROC_FILE_SYSTEM) return;
  throw new StoreUnusableError(
    `/proc/uptime is not the kernel's own file: another file system (type 0x${type.toString(16)}) ` +
      "is mounted over it, as lxcfs does for containers. The processes of this host then do not " +
      "share one clock, so two processes could hold one lease. Start the container without that " +
      "mount, or use a store with a server.",
  );
}

function timeNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/time");
  } catch {
    // A kernel without time namespaces has only one clock.
    return FIRST_TIME_NAMESPACE;
  }
}

function darwinHostClock(): HostClock {
  return {
    stepMs: 1,
    bootId: execFileSync("sysctl", ["-n", "kern.bootsessionuuid"], { encoding: "utf8" }).trim(),
    now: () => Math.floor(Number(process.hrtime.bigint() / 1_000_000n)),
  };
}

/** Sufficient to detect a suspend. A store that needs the boot id fails with an explanation. */
function unsupportedHostClock(platform: string): HostClock {
  return {
    stepMs: 1,
    now: () => Math.floor(Number(process.hrtime.bigint() / 1_000_000n)),
    get bootId(): string {
      throw new StoreUnusableError(
        "The embedded SQLite store needs the host's boot id, which Tenure can read on Linux and " +
          `macOS, not on ${platform}. Use a store with a server, or memory: for tests.`,
      );
    },
  };
}
