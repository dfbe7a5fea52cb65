// Writes one API report per export of package.json into this folder, from the built declarations. Reports are committed and
// reviewed like code. With --check, compares instead of writing, and fails when a report is out of date or names a public
// symbol without a doc comment.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CompilerState, Extractor, ExtractorConfig } from "@microsoft/api-extractor";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = fileURLToPath(new URL("..", import.meta.url));
const isCheck = process.argv.includes("--check");
const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const entries = Object.entries(exports).filter(([, target]) => typeof target !== "string");
const suffix = ".api.md";

const written = mkdtempSync(join(tmpdir(), "tenure-api-"));
try {
  const configs = entries.map(([name, { types }]) =>
    prepare(`tenure${name.slice(1)}`, join(root, types)),
  );
  // One program for all reports, because parsing Node's types takes longer than a report.
  const additionalEntryPoints = configs.map(({ mainEntryPointFilePath }) => mainEntryPointFilePath);
  const compilerState = CompilerState.create(configs[0], { additionalEntryPoints });
  for (const config of configs) extract(config, compilerState);
  process.exitCode = isCheck ? compare() : replace();
} finally {
  rmSync(written, { recursive: true, force: true });
}

function prepare(name, declarations) {
  const compilerOptions = {
    module: "nodenext",
    moduleResolution: "nodenext",
    target: "es2022",
    lib: ["es2023", "esnext.disposable"],
    types: ["node"],
    typeRoots: [join(root, "node_modules/@types")],
    allowImportingTsExtensions: true,
    noEmit: true,
    strict: true,
    skipLibCheck: true,
  };
  return ExtractorConfig.prepare({
    configObjectFullPath: join(root, "api/report.mjs"),
    packageJsonFullPath: join(root, "package.json"),
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: declarations,
      newlineKind: "lf",
      compiler: { overrideTsconfig: { compilerOptions, files: [declarations] } },
      apiReport: {
        enabled: true,
        reportFileName: `${name.replaceAll("/", "-")}${suffix}`,
        reportFolder: written,
        reportTempFolder: join(written, "temporary"),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        compilerMessageReporting: { default: { logLevel: "error" } },
        extractorMessageReporting: { default: { logLevel: "none" } },
        tsdocMessageReporting: { default: { logLevel: "none" } },
      },
    },
  });
}

function extract(config, compilerState) {
  const failures = [];
  Extractor.invoke(config, {
    localBuild: true,
    compilerState,
    messageCallback: (message) => {
      if (message.logLevel === "error") failures.push(message.text);
      message.handled = true;
    },
  });
  if (failures.length > 0) throw new Error(`${config.reportFilePath}: ${failures.join("\n")}`);
}

function reports(folder) {
  const names = readdirSync(folder).filter((name) => name.endsWith(suffix));
  return new Map(names.map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

function compare() {
  const [now, committed] = [reports(written), reports(here)];
  const names = new Set([...now.keys(), ...committed.keys()]);
  const outdated = [...names].filter((name) => now.get(name) !== committed.get(name));
  for (const name of outdated)
    console.log(`api/${name} is out of date. Run npm run api, and review the difference.`);
  const bare = [...now].flatMap(([name, text]) =>
    undocumented(text).map((each) => `${name}: ${each}`),
  );
  for (const each of bare) console.log(`${each} has no doc comment.`);
  return outdated.length + bare.length === 0 ? 0 : 1;
}

function replace() {
  for (const name of reports(here).keys()) rmSync(join(here, name));
  for (const [name, text] of reports(written)) writeFileSync(join(here, name), text);
  console.log(`Wrote ${entries.length} reports to api/.`);
  return 0;
}

/** The declarations of a report that lack a doc comment. */
function undocumented(text) {
  return [...text.matchAll(/^ *\/\/ (?:@\w+ )?\(undocumented\)\n(.*)$/gm)].map(([, line]) =>
    line.trim(),
  );
}
