/** A step of the set-up: done once, and again only when what it depends on has changed. */

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { ROOT } from "./paths.mjs";

/** Does `action` unless `stamp` says it was done for the same `inputs` (any JSON value). */
export async function once(stamp, inputs, title, action) {
  const wanted = JSON.stringify(inputs);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  await timed(title, action);
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, wanted);
}

/** Says what is being done, and how long it took. */
export async function timed(title, action) {
  const start = performance.now();
  console.log(`  ${title} ...`);
  const result = await action();
  console.log(`  ${title}: done in ${seconds(start)}`);
  return result;
}

export function seconds(start) {
  return `${((performance.now() - start) / 1000).toFixed(1)} s`;
}

/** A fingerprint of files and folders: changes with any name or content in them. */
export function fingerprint(paths) {
  const hash = createHash("sha256");
  for (const path of paths.flatMap(filesIn))
    hash.update(relative(ROOT, path)).update("\0").update(readFileSync(path)).update("\0");
  return hash.digest("hex");
}

function filesIn(path) {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return [path];
  const names = readdirSync(path).filter((name) => name !== "__pycache__");
  return names.sort().flatMap((name) => filesIn(join(path, name)));
}
