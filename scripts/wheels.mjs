/** The server's libraries for one platform, in one folder that fits every Python from 3.10 to 3.14. */

import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { inVenv, ROOT } from "./setup/paths.mjs";
import { quietly } from "./setup/run.mjs";

const PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"];

/** VS Code's name of a platform, and pip's names of what runs there. */
export const PLATFORMS = {
  "linux-x64": ["manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64"],
  "linux-arm64": ["manylinux_2_17_aarch64", "manylinux2014_aarch64", "manylinux_2_28_aarch64"],
  "darwin-arm64": ["macosx_11_0_arm64", "macosx_12_0_arm64"],
  "darwin-x64": ["macosx_10_12_x86_64", "macosx_10_13_x86_64", "macosx_10_15_x86_64"],
  "win32-x64": ["win_amd64"],
};

/** libcst 1.9.0 has no wheels for Macs with Intel processors; this is the last that has. */
const OLDER = { "darwin-x64": ["libcst==1.8.6"] };

export const BUNDLED = join(ROOT, "scripts", "bundled.txt");

/** libcst is compiled once per Python under names that differ; its other files are the same, so the wheels merge. */
export async function bundleLibraries(target, folder) {
  const pinned = readFileSync(BUNDLED, "utf8")
    .split("\n")
    .filter((line) => line.includes("=="));
  const [compiled, pure] = [pinned.filter(isCompiled), pinned.filter((line) => !isCompiled(line))];
  const wheels = join(ROOT, "dist", "wheels", target);
  rmSync(wheels, { recursive: true, force: true });
  mkdirSync(wheels, { recursive: true });
  await download(target, PYTHONS[0], pure, wheels);
  for (const python of PYTHONS) await download(target, python, OLDER[target] ?? compiled, wheels);
  for (const wheel of readdirSync(wheels)) {
    await quietly(inVenv("python"), ["-m", "zipfile", "-e", join(wheels, wheel), folder]);
  }
  trim(folder);
}

function isCompiled(requirement) {
  return requirement.startsWith("libcst==");
}

function download(target, python, requirements, folder) {
  const platforms = PLATFORMS[target].flatMap((platform) => ["--platform", platform]);
  const only = ["--only-binary=:all:", "--no-deps", "--python-version", python, "--implementation", "cp"];
  const args = ["-m", "pip", "download", "--quiet", ...only, ...platforms, "--dest", folder, ...requirements];
  return quietly(inVenv("python"), args);
}

/** What no server imports: libcst's tests, code generators and matchers. Licences stay. */
function trim(folder) {
  const unused = ["tests", "testing", "codemod", "codegen", "matchers", "tool.py", "display"].map((name) =>
    join("libcst", name),
  );
  for (const path of [...unused, ...testsIn(join(folder, "libcst"))]) {
    rmSync(join(folder, path), { recursive: true, force: true });
  }
}

function testsIn(libcst) {
  const packages = readdirSync(libcst, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return packages.map(({ name }) => join("libcst", name, "tests"));
}
