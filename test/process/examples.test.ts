// Goal: the programs in examples/ do what their comments say, even if a process is killed. Method:
// each example is started several times on one SQLite file; some processes are killed with -9.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Example, stages } from "../support/process/example.ts";

const stage = stages();
const POLL = { timeout: 60_000, interval: 100 };

async function endAll(examples: readonly Example[]): Promise<void> {
  for (const example of examples) example.signal("SIGTERM");
  expect(await Promise.all(examples.map(({ ended }) => ended))).toEqual(examples.map(() => 0));
}

test("singleton cron: each scheduled time is reported once, with increasing tokens, even if a machine is killed", async () => {
  const { folder, start } = stage();
  const machines = ["a", "b", "c"].map((name) =>
    start("singleton-cron.mjs", name, { SCHEDULE: "* * * * * *" }),
  );
  await Promise.all(machines.map((machine) => machine.said(/is on the schedule/)));
  const report = (): string[][] =>
    readFileSync(join(folder, "report.txt"), "utf8")
      .trim()
      .split("\n")
      .map((line) => line.split(" "));
  await machines[0]?.said(/ran|skipped/);
  await expect.poll(() => report().length, POLL).toBeGreaterThan(3);
  const last = report().at(-1)?.[1];
  const killed = machines.find(({ name }) => name === last) as Example;
  killed.signal("SIGKILL");
  await killed.ended;
  const before = report().length;
  await expect.poll(() => report().length, POLL).toBeGreaterThan(before + 2);
  await endAll(machines.filter((machine) => machine !== killed));
  const [fires, tokens] = [
    report().map(([fire]) => fire),
    report().map(([, , token]) => BigInt(token ?? 0)),
  ];
  expect(new Set(fires).size).toBe(fires.length);
  expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => (a < b ? -1 : 1)));
  expect(
    report()
      .slice(before)
      .filter(([, name]) => name === killed.name),
  ).toEqual([]);
});

test("shard owner: shards are distributed evenly, move with increasing tokens, and survive a killed process", async () => {
  const { start } = stage();
  const owners = [start("shard-owner.mjs", "a"), start("shard-owner.mjs", "b")];
  const shards = ({ lines }: Example): string[] => {
    const text = lines.findLast((line) => line.startsWith("owns ")) ?? "";
    return text.match(/^owns ([\d,]+) of/)?.[1]?.split(",") ?? [];
  };
  const shares = (): number[] => owners.map((owner) => shards(owner).length).sort();
  const all = (): string[] => owners.flatMap(shards).sort();
  const everyShard = ["0", "1", "2", "3", "4", "5", "6", "7"];
  await expect.poll(shares, POLL).toEqual([4, 4]);
  expect(all()).toEqual(everyShard);
  owners.push(start("shard-owner.mjs", "c"));
  await expect.poll(shares, POLL).toEqual([2, 3, 3]);
  expect(all()).toEqual(everyShard);
  const tokens = (name: string): bigint[] =>
    everyLine.filter(([shard]) => shard === name).map(([, token]) => BigInt(token ?? 0));
  const [first] = owners.splice(0, 1) as [Example];
  first.signal("SIGKILL");
  await first.ended;
  await expect.poll(shares, POLL).toEqual([4, 4]);
  expect(all()).toEqual(everyShard);
  const everyLine = [first, ...owners].flatMap(({ lines }) =>
    lines.flatMap((line) => {
      const match = line.match(/^took shard (\d) under token (\d+)$/);
      return match === null ? [] : [[match[1], match[2]]];
    }),
  );
  for (const shard of everyShard) expect(new Set(tokens(shard)).size).toBe(tokens(shard).length);
  await endAll(owners);
});

test("warm standby: a new primary has every entry, after the former one was killed or has exited", async () => {
  const { start } = stage();
  const readUrl = async (node: Example): Promise<string> =>
    String((await node.said(/listens on (\S+)/))[1]);
  const add = async (node: Example, body: string): Promise<number> =>
    (await fetch(await readUrl(node), { method: "POST", body })).status;
  const entries = async (node: Example): Promise<string[]> =>
    (await (await fetch(await readUrl(node))).text()).trim().split("\n");

  const one = start("warm-standby.mjs", "one");
  await one.said(/is primary/);
  const two = start("warm-standby.mjs", "two");
  await two.said(/stands by/);
  // Sent to the standby, which redirects to the primary.
  for (const entry of ["red", "green", "blue"]) expect(await add(two, entry)).toBe(201);
  await expect.poll(() => entries(two), POLL).toEqual(["red", "green", "blue"]);
  one.signal("SIGKILL");
  await one.ended;
  const [, term] = await two.said(/is primary in term (\d+) with 3 entries/);
  expect(await add(two, "black")).toBe(201);
  const three = start("warm-standby.mjs", "three");
  await three.said(/stands by with 4 entries/);
  await endAll([two]);
  const [, next] = await three.said(/is primary in term (\d+) with 4 entries/);
  expect(BigInt(String(next))).toBeGreaterThan(BigInt(String(term)));
  expect(await add(three, "white")).toBe(201);
  expect(await entries(three)).toEqual(["red", "green", "blue", "black", "white"]);
  await endAll([three]);
});
