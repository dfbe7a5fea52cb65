// What every worker of the process tests needs: one line of JSON to the parent per event, commands from the parent,
// and a clock that all processes of this host share. Lines are written synchronously, so that what was told before a
// kill -9 has been told.
import { writeSync } from "node:fs";

/** What the parent passed to `start`. */
export const settings = JSON.parse(process.argv[2] ?? "{}");

/** Milliseconds on CLOCK_MONOTONIC, which is one clock for all processes of a host. */
export function hostMs() {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The same for an instant of `performance.now()`, such as `lease.safeUntil`. */
export function toHostMs(instant) {
  return hostMs() + (instant - performance.now());
}

export function tell(event, facts = {}) {
  const line = JSON.stringify({ event, at: hostMs(), ...facts }, (_key, value) =>
    typeof value === "bigint" ? String(value) : value,
  );
  writeSync(1, `${line}\n`);
}

/** What a test wants to know of an error, and of what caused it. */
export function factsOf(error) {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, code, reason, applied, retryable, cause } = error;
  const facts = { name, message, code, reason, applied, retryable };
  return cause === undefined ? facts : { ...facts, cause: factsOf(cause) };
}

/** Calls back with every command of the parent. When the parent is gone, so is the worker. */
export function onCommand(handle) {
  let text = "";
  process.stdin.on("data", (chunk) => {
    text += chunk;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n")) {
      const line = text.slice(0, end);
      text = text.slice(end + 1);
      handle(JSON.parse(line));
    }
  });
  process.stdin.on("end", () => process.exit(0));
}

/** Resolves with the parent's next command, for workers that wait for a common start. */
export function nextCommand() {
  return new Promise((resolve) => onCommand(resolve));
}
