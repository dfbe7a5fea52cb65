// flock(1) of util-linux around a program that waits: the kernel wakes the next one. No ttl, no token, this machine only.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

async function take(folder, resource) {
  const file = join(folder, `${encodeURIComponent(resource)}.flock`);
  const child = spawn("flock", [file, "sh", "-c", "echo held; exec cat"]);
  await once(child.stdout, "data");
  return child;
}

/** Held as long as the program under it runs. */
export async function open({ url: folder }) {
  return {
    acquire: async (resource) => {
      const child = await take(folder, resource);
      return { isHeld: () => child.exitCode === null && child.signalCode === null };
    },
  };
}

export async function locker({ url: folder }) {
  return {
    lock: async (resource) => {
      const child = await take(folder, resource);
      return async () => {
        const ended = once(child, "exit");
        child.stdin.end();
        await ended;
      };
    },
    close: () => undefined,
  };
}
