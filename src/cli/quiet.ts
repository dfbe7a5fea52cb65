// Keeps one warning off the demo's screen: Node 22 and 24 call node:sqlite experimental each time a process loads it.

export function quietExperiments(): void {
  // Node prints warnings through a listener of its own; all others are printed here instead.
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    if (warning.name === "ExperimentalWarning") return;
    // The stack of a warning of ours says where Tenure reported it, which helps no user.
    const { name, message, detail } = warning as Error & { readonly detail?: string };
    if (name === "TenureWarning")
      console.error([`${name}: ${message}`, detail ?? []].flat().join("\n"));
    else console.error(warning.stack ?? message);
  });
}
