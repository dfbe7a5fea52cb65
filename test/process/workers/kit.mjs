// Shared by the worker processes: events to the parent as one line of JSON each, commands from the
// parent, and a clock that all processes of the host share. Events are written synchronously, so an
// event that was reported before a kill -9 reaches the parent.
import { writeSync } from "node:fs";

/** What the parent passed to `start`. */
export const settings = JSON.parse(process.argv[2] ?? "{}");

/** Milliseconds on CLOCK_MONOTONIC, which is one clock for all processes of a host. */
export function hostMs() {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Converts a time of `performance.now()`, such as `lease.safeUntil`, to `hostMs()`. */
export function toHostMs(instant) {
  return hostMs() + (instant - performance.now());
}

/** Sends an event to the parent. */
export function report(event, facts = {}) {
  const line = JSON.stringify({ event, at: hostMs(), ...facts }, (_key, value) =>
    typeof value === "bigint" ? String(value) : value,
  );
  writeSync(1, `${line}\n`);
}

/** The properties of an error, and of its causes, that tests assert. */
export function describeError(error) {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, code, reason, applied, retryable, cause } = error;
  const facts = { name, message, code, reason, applied, retryable };
  return cause === undefined ? facts : { ...facts, cause: describeError(cause) };
}

/** Calls `handle` with every command of the parent. Ends the worker when the parent has ended. */
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
