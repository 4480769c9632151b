/** Where things are. What is downloaded for the editor lies outside the sources, so that clones can share it. */

import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

export const ROOT = resolve(import.meta.dirname, "..", "..");
export const VENV = join(ROOT, ".venv");
export const OUTPUT = join(ROOT, "test-output");
export const CACHE = process.env.XDG_CACHE_HOME ? join(process.env.XDG_CACHE_HOME, "remat") : join(ROOT, ".cache");

const WINDOWS = process.platform === "win32";

/** A program of the project's virtual environment. */
export function inVenv(program) {
  return WINDOWS ? join(VENV, "Scripts", `${program}.exe`) : join(VENV, "bin", program);
}

/** The platform this machine needs a VSIX for, in VS Code's words. */
export const HOST_TARGET = `${process.platform}-${process.arch}`;

/** Whether the module at `url` is the program that was started. */
export function isMain(url) {
  return url === pathToFileURL(process.argv[1]).href;
}
