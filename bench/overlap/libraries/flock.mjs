// flock(1) of util-linux around a program that waits: the kernel wakes the next one. No ttl, no token, this machine only.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

export async function locker({ url: folder }) {
  return {
    lock: async (resource) => {
      const file = join(folder, `${encodeURIComponent(resource)}.flock`);
      const child = spawn("flock", [file, "sh", "-c", "echo held; exec cat"]);
      await once(child.stdout, "data");
      return async () => {
        const ended = once(child, "exit");
        child.stdin.end();
        await ended;
      };
    },
    close: () => undefined,
  };
}
