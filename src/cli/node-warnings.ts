// Keeps one warning off the demo's screen: Node 22 and 24 call node:sqlite experimental each time a process loads it.

export function hideExperimentalWarnings(): void {
  // Node prints warnings through a listener of its own; all others are printed here instead.
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    if (warning.name !== "ExperimentalWarning") console.error(warning.stack ?? warning.message);
  });
}
