/** The server's process: started, listened to, and surely ended. */

import { type ChildProcess, spawn } from "node:child_process";
import type { Launch } from "./launch";

export interface ServerProcess {
  readonly child: ChildProcess;
  /** Settles when the process is gone, with how it ended and its last words. */
  readonly ended: Promise<string>;
}

const LAST_WORDS = 400;
const PATIENCE_MS = 2_000;

export function startProcess(launch: Launch, cwd: string): ServerProcess {
  const child = spawn(launch.command, launch.args, { cwd, windowsHide: true });
  let words = "";
  child.stderr.on("data", (chunk) => {
    words = (words + String(chunk)).slice(-LAST_WORDS);
  });
  const ended = new Promise<string>((resolve) => {
    child.on("error", (error) => resolve(`could not be started: ${error.message}`));
    child.on("close", (code, signal) =>
      resolve(`ended with ${signal ?? `exit code ${code}`}. ${lastLine(words)}`.trim()),
    );
  });
  return { child, ended };
}

/** A server that was asked to go and stays is ended after a while. */
export async function endProcess({ child, ended }: ServerProcess): Promise<void> {
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  await ended;
  clearTimeout(timer);
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
