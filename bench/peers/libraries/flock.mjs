// flock(1) of util-linux around a program that waits. The kernel wakes the next waiter. There is no
// ttl and no token, and the lock works on one machine only.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

async function take(folder, resource) {
  const file = join(folder, `${encodeURIComponent(resource)}.flock`);
  const child = spawn("flock", [file, "sh", "-c", "echo held; exec cat"]);
  await once(child.stdout, "data");
  return child;
}

/** The lock is held while the program under it runs. */
export async function holder({ url: folder }) {
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
