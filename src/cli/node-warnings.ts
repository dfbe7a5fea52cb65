// Hides Node's experimental warnings. Node 22 and 24 print one whenever a process loads
// node:sqlite, and users of the CLI cannot act on it.

export function hideExperimentalWarnings(): void {
  // This also removes Node's own listener, which prints warnings, so we print all other warnings
  // here.
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    if (warning.name !== "ExperimentalWarning") console.error(warning.stack ?? warning.message);
  });
}
