/** Debian packages: installed where that is allowed, else named. */

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { Failed, quietly } from "./run.mjs";

export function canApt() {
  return process.getuid?.() === 0 && onPath("apt-get") !== undefined;
}

export async function aptInstall(packages) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  await quietly("apt-get", ["update", "-qq"], { env });
  await quietly("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages], { env });
}

/** Makes `command` available, or says how the user can. `packages`: Debian's names. */
export async function need(command, packages, why) {
  if (command()) return;
  const line = `apt-get install -y --no-install-recommends ${packages.join(" ")}`;
  if (!canApt()) throw new Failed(`${why} is missing. On Debian or Ubuntu: sudo ${line}`);
  await aptInstall(packages);
  if (!command()) throw new Failed(`${why} is still missing after ${line}`);
}

export function onPath(...programs) {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return programs.flatMap((program) => folders.map((folder) => join(folder, program))).find((path) => existsSync(path));
}
