/** Asks a Python what it is and whether it can run the server. */

import { execFile } from "node:child_process";
import * as path from "node:path";
import type { ImportStrategy } from "./settings";

export interface Python {
  readonly executable: string;
  readonly version: string;
  readonly implementation: string;
  /** Whether torch is among its packages. */
  readonly torch: boolean;
  /** Why it cannot run the server; null where it can. */
  readonly fault: string | null;
}

/** The first start of an interpreter on a network disk takes this long. */
const PATIENCE_MS = 20_000;

export function launcher(root: string): string {
  return path.join(root, "extension", "launch.py");
}

/** The Python behind `command`, or in words why there is none. */
export function askPython(command: string, root: string, strategy: ImportStrategy): Promise<Python | string> {
  // -s and -E keep the user's site-packages and PYTHON* variables out; Python 2 knows them too.
  const args = ["-s", "-E", launcher(root), "--check", strategy];
  return new Promise((resolve) => {
    execFile(command, args, { cwd: root, timeout: PATIENCE_MS, windowsHide: true }, (error, stdout, stderr) => {
      resolve(error ? inWords(error, stderr) : (parse(stdout) ?? `answered ${JSON.stringify(stdout.slice(0, 80))}`));
    });
  });
}

function inWords(error: Error & { code?: string | number | null; killed?: boolean }, stderr: string): string {
  if (error.code === "ENOENT") return "does not exist";
  if (error.code === "EACCES") return "is not an executable file";
  if (error.killed) return `did not answer within ${PATIENCE_MS / 1000} s`;
  return `could not be run: ${stderr.trim().split("\n").at(-1) || error.message}`;
}

function parse(stdout: string): Python | undefined {
  try {
    const facts: Partial<Python> = JSON.parse(stdout);
    const { executable, version, implementation = "", torch = false, fault = null } = facts;
    return executable && version ? { executable, version, implementation, torch, fault } : undefined;
  } catch {
    return undefined;
  }
}
