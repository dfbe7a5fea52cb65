// The processes of the safety trials. Each ends with its trial; all of them end with this process, also those that are stopped
// and hear nothing, not even that their parent is gone.
import { Child } from "../../test/support/process/child.ts";

const living = new Set<Child>();
process.once("exit", () => {
  for (const child of living) child.signal("SIGKILL");
});

export function startChild(worker: URL, settings: object): Child {
  const child = new Child(worker, settings, {});
  living.add(child);
  return child;
}

export async function endChild(child: Child): Promise<void> {
  await child.kill();
  living.delete(child);
}

/** For an interrupted run. */
export async function endAll(): Promise<void> {
  await Promise.all([...living].map(endChild));
}
