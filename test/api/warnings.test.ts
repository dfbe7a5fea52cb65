// Goal: a risk that a store detects when it is opened is reported to the user as a process warning,
// once per process and without any option. Method: a custom store that warns, through connect().
import { expect, onTestFinished, test } from "vitest";
import { connect } from "../../src/connect.ts";
import { MemoryBackend, memoryStore } from "../../src/stores/memory/index.ts";

test("a warning of a store is emitted once per process, even if the store is opened several times", async () => {
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
  // Node emits warnings asynchronously.
  await new Promise((resolve) => setImmediate(resolve));
  expect(warnings).toMatchObject([{ name: "TenureWarning", message }]);
});
