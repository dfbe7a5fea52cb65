// Writes to a guarded file without a pause until it is killed. It appends long lines, or replaces
// the whole file. It reports each write before it begins and after the guard has acknowledged it.
import { fileGuard } from "../../../dist/guards/file/index.js";
import { report, settings } from "./kit.mjs";

const guard = fileGuard(settings.file);
const source = { resource: "ledger", token: BigInt(settings.token) };
for (let turn = 0; ; turn += 1) {
  const name = `${settings.token}.${turn}`;
  // Long enough that a kill can happen in the middle of the write.
  const line = `${name} ${"x".repeat(50_000 + ((turn * 7919) % 200_000))} ${name}\n`;
  report("begun", { name });
  await (settings.replaces ? guard.replace(source, line) : guard.append(source, line));
  report("written", { name });
}
