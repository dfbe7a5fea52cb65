// Cases for Jest with the configuration from docs/modules.md, once with ts-jest and once with swc.
import type { Case } from "../lab.ts";
import { fileBlock } from "./pages.ts";

const TEST = `
import { connect } from "tenure";
import { memoryStore, MemoryBackend } from "tenure/stores/memory";
import { nodeCronCoordinator } from "tenure/schedulers/node-cron";
import { oncePerFire } from "tenure/schedulers/croner";
import { sqliteGuard } from "tenure/guards/sqlite";

test("a lease", async () => {
  const tenure = await connect(memoryStore(new MemoryBackend()));
  const token: bigint = await tenure.withLease("jest", async (lease) => lease.check());
  expect(token > 0n).toBe(true);
  expect(nodeCronCoordinator(tenure).lease("x")).toBeUndefined();
  expect(typeof oncePerFire(tenure, "x", () => undefined)).toBe("function");
  expect(typeof sqliteGuard).toBe("function");
  await tenure.close();
});

test("by URL, with fake timers", async () => {
  jest.useFakeTimers();
  const tenure = await connect("memory:");
  const lease = await tenure.acquire("jest");
  lease.check();
  await tenure.close();
  jest.useRealTimers();
});
`;
const SETUPS = [
  {
    name: "30 with ts-jest",
    file: "jest.config.cjs with ts-jest",
    packages: ["ts-jest@29", "typescript@5"],
  },
  {
    name: "30 with swc",
    file: "jest.config.cjs with swc",
    packages: ["@swc/jest@0.2", "@swc/core@1"],
  },
];

export const JEST: readonly Case[] = SETUPS.map(({ name, file, packages }) => ({
  group: "jest",
  name,
  run: async (lab) => {
    const others = ["jest@30", "@types/jest@30", "node-cron@4", "croner@10"];
    const project = await lab.project({ packages: [...packages, ...others], type: "commonjs" });
    project.write("jest.config.cjs", fileBlock(lab.page("docs/modules.md"), file));
    project.write(
      "tsconfig.json",
      fileBlock(lab.page("docs/modules.md"), "tsconfig.json for Jest"),
    );
    project.write("lease.test.ts", TEST);
    const output = await project.must(process.execPath, [project.bin("jest", "bin/jest.js")]);
    if (!/Tests: +2 passed, 2 total/.test(output)) throw new Error(output);
    return `jest ${project.readVersion("jest")}`;
  },
}));
