// The entry of each simulation thread. A thread does not inherit tsx from the process, so it registers tsx itself.
import { register } from "tsx/esm/api";

register();
await import("./thread.ts");
