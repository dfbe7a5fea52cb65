// Goal: a risk that a store finds when it is opened reaches the user without any option: once per
// process, as a process warning. Method: a store of our own that warns, through connect().
import { expect, onTestFinished, test } from "vitest";
import { connect } from "../../src/connect.ts";
import { MemoryBackend, memoryStore } from "../../src/stores/memory/index.ts";

test("a warning of a store becomes one process warning, however often the store is opened", async () => {
  const warnings: Error[] = [];
  const listen = (warning: Error): void => void warnings.push(warning);
  process.on("warning", listen);
  onTestFinished(() => void process.off("warning", listen));
  const message = "The server may forget its data. Change its settings.";
  for (let times = 0; times < 3; times += 1) {
    const tenure = await connect((parts) => {
      parts.warn(message);
      return memoryStore(new MemoryBackend())(parts);
    });
    await tenure.close();
  }
  // Node emits warnings in a later turn.
  await new Promise((resolve) => setImmediate(resolve));
  expect(warnings).toMatchObject([{ name: "TenureWarning", message }]);
});
