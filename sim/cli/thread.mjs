// The entry point of a simulation thread. Threads do not inherit tsx from the process, so we
// register it here.
import { register } from "tsx/esm/api";

register();
await import("./thread.ts");
