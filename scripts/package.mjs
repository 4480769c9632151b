/** `npm run package [-- --target linux-x64]`: a VSIX per platform in dist/, with all that the server needs but Python. */

import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { build } from "./build.mjs";
import { orExit } from "./setup/exit.mjs";
import { isMain, ROOT } from "./setup/paths.mjs";
import { Failed, quietly } from "./setup/run.mjs";
import { fingerprint, once } from "./setup/step.mjs";
import { prepareVenv } from "./setup/venv.mjs";
import { BUNDLED, bundleLibraries, PLATFORMS } from "./wheels.mjs";

const DIST = join(ROOT, "dist");
const LARGEST_MB = 11; // of which libcst, compiled for five Pythons, takes 8.4
const COPIED = [
  "LICENSE",
  "README.md",
  "CHANGELOG.md",
  "dist/extension.js",
  "dist/report.js",
  "dist/report-style.css",
  "dist/probe.js",
  "dist/probe-style.css",
  "extension/launch.py",
  "extension/walkthrough",
];

/** The VSIX for `target`, built if anything in it has changed. */
export async function packageFor(target) {
  if (!(target in PLATFORMS)) {
    throw new Failed(`expected a platform out of ${Object.keys(PLATFORMS).join(", ")}, got ${target}`);
  }
  await prepareVenv();
  await build();
  const { version } = manifest();
  const vsix = join(DIST, `remat-${target}-${version}.vsix`);
  const sources = [...COPIED, "server/remat", "package.json", "scripts/package.mjs", "scripts/wheels.mjs"];
  const inputs = fingerprint([...sources.map((path) => join(ROOT, path)), BUNDLED]);
  if (!existsSync(vsix)) rmSync(stampOf(target), { force: true });
  await once(stampOf(target), inputs, `extension for ${target}`, () => pack(target, vsix));
  return vsix;
}

function stampOf(target) {
  return join(DIST, `${target}.remat-stamp`);
}

async function pack(target, vsix) {
  const stage = join(DIST, "stage", target);
  rmSync(stage, { recursive: true, force: true });
  mkdirSync(stage, { recursive: true });
  for (const path of COPIED.filter((path) => existsSync(join(ROOT, path)))) copy(path, stage);
  copy("server/remat", stage);
  writeFileSync(join(stage, "package.json"), JSON.stringify(published(manifest()), null, 2));
  await libraries(target, join(stage, "bundled"));
  const vsce = join(ROOT, "node_modules", "@vscode", "vsce", "vsce");
  const args = ["package", "--no-dependencies", "--target", target, "--out", vsix];
  const offline = ["--allow-missing-repository", "--no-rewrite-relative-links", "--skip-license"];
  await quietly(process.execPath, [vsce, ...args, ...offline], { cwd: stage });
  const megabytes = statSync(vsix).size / 1e6;
  if (megabytes > LARGEST_MB)
    throw new Failed(`${vsix} has ${megabytes.toFixed(1)} MB, expected at most ${LARGEST_MB}`);
}

/** Downloaded once; the sources change more often than the list of libraries. */
async function libraries(target, folder) {
  const kept = join(DIST, "libraries", target);
  const inputs = fingerprint([BUNDLED, join(ROOT, "scripts", "wheels.mjs")]);
  await once(join(kept, "..", `${target}.remat-stamp`), inputs, `libraries for ${target}`, async () => {
    rmSync(kept, { recursive: true, force: true });
    await bundleLibraries(target, kept);
  });
  cpSync(kept, folder, { recursive: true });
}

function copy(path, stage) {
  const filter = (source) => !source.includes("__pycache__");
  cpSync(join(ROOT, path), join(stage, path), { recursive: true, filter });
}

function manifest() {
  return JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
}

/** The manifest without what only a checkout needs. */
function published({ scripts, devDependencies, private: _, ...rest }) {
  return rest;
}

async function main() {
  const { values } = parseArgs({ options: { target: { type: "string", multiple: true } } });
  for (const target of values.target ?? Object.keys(PLATFORMS)) {
    const vsix = await packageFor(target);
    console.log(`${vsix}  ${(statSync(vsix).size / 1e6).toFixed(1)} MB`);
  }
}

if (isMain(import.meta.url)) await orExit(main);
