// Builds two kinds of cases: a program that must pass, and a program that must fail with a message
// about the version.
import type { Case, Lab } from "../lab.ts";
import type { Project, ProjectOptions } from "../project.ts";

type Environment = Readonly<Record<string, string>>;

export interface Plan extends ProjectOptions {
  readonly group: string;
  /** A file of programs/. */
  readonly program: string;
  readonly env?: (lab: Lab) => Promise<Environment>;
}

/** Installs and runs a program. Its last line must be "passed". */
export function createPassingCase(name: string, plan: Plan): Case {
  return {
    group: plan.group,
    name,
    run: async (lab) => {
      const project = await lab.project(plan);
      const env = (await plan.env?.(lab)) ?? {};
      const output = await project.must(process.execPath, [plan.program], env);
      if (!output.trimEnd().endsWith("passed")) throw new Error(`It did not pass:\n${output}`);
      return formatVersions(project, plan);
    },
  };
}

/** Installs a version outside the peer range. The program must fail and name both versions. */
export function createRejectedCase(name: string, plan: Plan & { readonly required: string }): Case {
  return {
    group: plan.group,
    name,
    run: async (lab) => {
      const project = await lab.project({ ...plan, legacyPeerDeps: true });
      const env = (await plan.env?.(lab)) ?? {};
      const { code, output } = await project.exec(process.execPath, [plan.program], env);
      if (code === 0) throw new Error(`It was accepted:\n${output}`);
      const found = formatVersions(project, plan).split(", ")[0] ?? "";
      for (const part of [found, plan.required])
        if (!output.includes(part)) throw new Error(`Nothing about ${part} in:\n${output}`);
      const line = output.split("\n").find((text) => text.includes(found)) ?? "";
      return `rejected: ${line.replace(/^.*?Error: /, "")}`;
    },
  };
}

/** The installed versions: "croner 9.1.0, ...". */
function formatVersions(project: Project, { packages }: ProjectOptions): string {
  const names = packages.map((spec) => spec.slice(0, spec.lastIndexOf("@")));
  return names.map((name) => `${name} ${project.readVersion(name)}`).join(", ");
}
