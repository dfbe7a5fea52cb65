// Cases for TypeScript, with each version and each module setting: the first snippet of the README,
// an import of every public entry point, and the clients of every supported library.
import type { Case, Lab } from "../lab.ts";
import type { Project } from "../project.ts";
import { tsBlocks } from "./pages.ts";

const COMPILERS = ["5.4", "5.8", "5", "6", "7"];
/** CommonJS output can import ES modules since TypeScript 5.8. */
const COMMON_JS_COMPILERS = ["5.8", "5", "6", "7"];
const toAlias = (version: string): string => `typescript-${version}`;

const SETTINGS = {
  nodenext: { module: "nodenext", moduleResolution: "nodenext" },
  node16: { module: "node16", moduleResolution: "node16" },
  bundler: { module: "esnext", moduleResolution: "bundler" },
};

/** Our types must accept the clients of every supported version. */
const CLIENTS = `
import { Cron as Cron9 } from "croner9";
import { Cron as Cron10 } from "croner10";
import { Cron as Cron11 } from "croner11";
import { Redis as Ioredis5 } from "ioredis5";
import { Redis as Ioredis6 } from "ioredis6";
import { schedule } from "node-cron";
import pg from "pg";
import postgres from "postgres";
import { createClient as createClient4 } from "redis4";
import { createClient as createClient5 } from "redis5";
import { createClient as createClient6 } from "redis6";
import type { Tenure } from "tenure";
import { oncePerFire } from "tenure/schedulers/croner";
import { postgresGuard } from "tenure/guards/postgres";
import { redisGuard } from "tenure/guards/redis";
import { nodeCronCoordinator } from "tenure/schedulers/node-cron";
import { postgresStore } from "tenure/stores/postgres";
import { redisStore } from "tenure/stores/redis";

declare const tenure: Tenure;
const run = (): undefined => undefined;
new Cron9("* * * * *", oncePerFire(tenure, "x", run));
new Cron10("* * * * *", oncePerFire(tenure, "x", run));
new Cron11("* * * * *", oncePerFire(tenure, "x", run));
schedule("* * * * *", run, { runCoordinator: nodeCronCoordinator(tenure) });
for (const client of [new Ioredis5(), new Ioredis6()]) {
  redisStore({ client });
  redisGuard(client);
}
redisStore({ client: createClient4() });
redisStore({ client: createClient5() });
redisStore({ client: createClient6() });
redisGuard(createClient4());
redisGuard(createClient5());
redisGuard(createClient6());
postgresStore({ client: new pg.Pool() });
postgresGuard(new pg.Pool());
postgresStore({ client: postgres() });
postgresGuard(postgres());
`;

const PACKAGES = [
  ...COMPILERS.map((version) => `${toAlias(version)}@npm:typescript@${version}`),
  "@nestjs/common@12",
  "@nestjs/core@12",
  "@nestjs/schedule@12",
  "reflect-metadata@0.2",
  "rxjs@7",
  "@types/node@20",
  "node-cron@4",
  "pg@8",
  "@types/pg@8",
  "postgres@3",
  ...[9, 10, 11].map((major) => `croner${major}@npm:croner@${major}`),
  ...[5, 6].map((major) => `ioredis${major}@npm:ioredis@${major}`),
  ...[4, 5, 6].map((major) => `redis${major}@npm:redis@${major}`),
];

let opened: Promise<Project> | undefined;

/** Creates one project for all cases, with all compilers side by side. */
function openProject(lab: Lab): Promise<Project> {
  opened ??= lab.project({ packages: PACKAGES }).then((created) => {
    const { exports: names } = lab.manifest();
    const imports = Object.keys(names)
      .filter((name) => name !== "./package.json")
      .map((name, index) => `export * as m${index} from "tenure${name.slice(1)}";\n`);
    const [first = ""] = tsBlocks(lab.page("README.md"));
    for (const kind of ["module", "commonjs"]) {
      created.write(`${kind}/package.json`, JSON.stringify({ type: kind }));
      created.write(`${kind}/imports.ts`, imports.join(""));
    }
    // CommonJS has no top-level await.
    created.write("module/first.ts", `${first}\nexport {};\n`);
    created.write("clients/package.json", JSON.stringify({ type: "module" }));
    created.write("clients/clients.ts", CLIENTS);
    return created;
  });
  return opened;
}

async function compile(
  lab: Lab,
  version: string,
  folder: string,
  setting: object,
): Promise<string> {
  const opened = await openProject(lab);
  const compilerOptions = {
    ...setting,
    target: "es2022",
    lib: ["es2023", "esnext.disposable"],
    types: ["node"],
    strict: true,
    noEmit: true,
    skipLibCheck: false,
  };
  opened.write(`${folder}/tsconfig.json`, JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const tsc = opened.bin(toAlias(version), "bin/tsc");
  const { code, output } = await opened.exec(process.execPath, [tsc, "-p", folder]);
  const errors = output.split("\n").filter((line) => /error TS\d+/.test(line));
  // Ignores errors in the declarations of other packages. Ours are in node_modules/tenure/.
  const ours = errors.filter(
    (line) => !line.includes("node_modules/") || line.includes("/tenure/"),
  );
  if (ours.length > 0) throw new Error(ours.join("\n"));
  if (code !== 0 && errors.length === 0) throw new Error(output);
  return `typescript ${opened.readVersion(toAlias(version))}`;
}

export const TYPESCRIPT: readonly Case[] = [
  ...COMPILERS.flatMap((version) =>
    Object.entries(SETTINGS).map(([name, setting]) => ({
      group: "typescript",
      name: `${version} ${name}`,
      run: (lab: Lab) => compile(lab, version, "module", setting),
    })),
  ),
  ...COMMON_JS_COMPILERS.map((version) => ({
    group: "typescript",
    name: `${version} nodenext, CommonJS`,
    run: (lab: Lab) => compile(lab, version, "commonjs", SETTINGS.nodenext),
  })),
  ...["5", "7"].map((version) => ({
    group: "typescript",
    name: `${version} clients of every version`,
    run: (lab: Lab) => compile(lab, version, "clients", SETTINGS.nodenext),
  })),
];
