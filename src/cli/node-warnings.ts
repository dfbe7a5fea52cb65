// Prints process warnings in the way that suits the CLI. Node 22 and 24 report node:sqlite as
// experimental whenever a process loads it, which users cannot act on, so that warning is hidden.

export function hideExperimentalWarnings(): void {
  // This also removes Node's own listener, which prints warnings, so we print all others here.
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    if (warning.name === "ExperimentalWarning") return;
    // The stack of our own warnings shows where Tenure reports them, which does not help a user.
    const { name, message, detail } = warning as Error & { readonly detail?: string };
    if (name === "TenureWarning")
      console.error([`${name}: ${message}`, detail ?? []].flat().join("\n"));
    else console.error(warning.stack ?? message);
  });
}
