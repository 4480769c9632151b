/** Runs a program: shown as it goes, or silently and shown only when it fails. */

import { spawn, spawnSync } from "node:child_process";
import { ROOT } from "./paths.mjs";

export class Failed extends Error {}

/** Its output goes to the terminal. Returns the exit code. */
export function show(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { cwd: ROOT, stdio: "inherit", ...options });
  if (error) throw new Failed(`${command} could not be run: ${error.message}`);
  return status ?? 1;
}

/** Its output is kept, and thrown where it fails. Returns what it printed. */
export async function quietly(command, args, options = {}) {
  const { code, output } = await capture(command, args, options);
  if (code !== 0) throw new Failed(`${command} ${args.join(" ")} failed with exit code ${code}:\n${output.trim()}`);
  return output;
}

/** Runs it to the end; `echo` also gets the output as it comes. */
export function capture(command, args, { echo, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"], ...options });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        output += chunk;
        echo?.(String(chunk));
      });
    }
    child.on("error", (error) => reject(new Failed(`${command} could not be run: ${error.message}`)));
    child.on("close", (code, signal) => resolve({ code: code ?? `signal ${signal}`, output }));
  });
}

/**
 * npm, whatever it is called here; `npm run` says where it is. `node` runs it instead of our own Node: npm puts the
 * folder of the Node that it runs on first in the PATH of install scripts.
 */
export function npm(args, { node = process.execPath, ...options } = {}) {
  const cli = process.env.npm_execpath;
  return cli ? quietly(node, [cli, ...args], options) : quietly("npm", args, { shell: true, ...options });
}
