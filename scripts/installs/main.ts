// `npm run test:installs` packs the library and installs it in temporary projects, together with
// each version of other packages that the peer ranges allow. In each project it runs a program that
// uses them. Versions outside the ranges must be rejected with an explanation.
//   npm run test:installs -- [GROUP...]     for example: npm run test:installs -- nestjs croner
import { CannotRunError } from "../../test/servers/engine.ts";
import { CASES } from "./cases.ts";
import { type Case, Lab } from "./lab.ts";

const groups = [...new Set(CASES.map(({ group }) => group))];
const chosen = process.argv.slice(2);
const unknown = chosen.filter((name) => !groups.includes(name));
if (unknown.length > 0) {
  console.error(`Expected some of ${groups.join(", ")}, got "${unknown.join(" ")}".`);
  process.exit(2);
}
const wanted = CASES.filter(({ group }) => chosen.length === 0 || chosen.includes(group));
const nameWidth = Math.max(...wanted.map(({ group, name }) => group.length + name.length + 1));

type Outcome = "ok" | "skip" | "FAIL";

async function judge({ run }: Case, lab: Lab): Promise<{ outcome: Outcome; remark: string }> {
  try {
    return { outcome: "ok", remark: await run(lab) };
  } catch (error) {
    const remark = error instanceof Error ? error.message : String(error);
    return { outcome: error instanceof CannotRunError ? "skip" : "FAIL", remark };
  }
}

const startedAt = performance.now();
const counts: Record<Outcome, number> = { ok: 0, skip: 0, FAIL: 0 };
const secondsSince = (since: number): string =>
  `${((performance.now() - since) / 1000).toFixed(1)} s`;
await using lab = await Lab.open();
console.log(`packed in ${secondsSince(startedAt)}; ${wanted.length} cases\n`);
for (const each of wanted) {
  const caseStartedAt = performance.now();
  const { outcome, remark } = await judge(each, lab);
  counts[outcome] += 1;
  const name = `${each.group} ${each.name}`.padEnd(nameWidth);
  console.log(
    `${outcome.padEnd(4)} ${secondsSince(caseStartedAt).padStart(8)}  ${name}  ${remark}`,
  );
}
console.log(
  `\n${counts.ok} passed, ${counts.FAIL} failed, ${counts.skip} skipped in ${secondsSince(startedAt)}`,
);
process.exitCode = counts.FAIL > 0 ? 1 : 0;
