// Writes to a guarded file without a pause until it is killed: appends long lines, or replaces the whole. Every write is
// told before it is begun and when it has been acknowledged.
import { fileGuard } from "../../../dist/guards/file.js";
import { settings, tell } from "./kit.mjs";

const guard = fileGuard(settings.file);
const source = { resource: "ledger", token: BigInt(settings.token) };
for (let turn = 0; ; turn += 1) {
  const name = `${settings.token}.${turn}`;
  // Long enough for a kill to fall into the middle of it.
  const line = `${name} ${"x".repeat(50_000 + ((turn * 7919) % 200_000))} ${name}\n`;
  tell("begun", { name });
  await (settings.replaces ? guard.replace(source, line) : guard.append(source, line));
  tell("written", { name });
}
