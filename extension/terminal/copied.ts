/** What VS Code's own copy commands copy: the only way to a terminal's selection. The clipboard is given back. */

import * as vscode from "vscode";

/** Copying is not awaited by VS Code's command, and a browser may take a while. */
const ARRIVES_WITHIN_MS = 1_500;
const LOOKS_EVERY_MS = 25;
/** A browser that has not been allowed to read the clipboard never answers. */
const CLIPBOARD_PATIENCE_MS = 10_000;

/**
 * The text that `command` puts on the clipboard, or nothing.
 *
 * What was on the clipboard is put back, whatever happens; extensions can give back text only. It is read on this
 * machine and sent nowhere.
 */
export async function copiedBy(command: string): Promise<string> {
  const clipboard = vscode.env.clipboard;
  const before = await inTime(clipboard.readText());
  try {
    await inTime(clipboard.writeText("")); // so that a copy of the same text is seen, too
    await vscode.commands.executeCommand(command);
    return await arriving();
  } finally {
    await inTime(clipboard.writeText(before));
  }
}

async function arriving(): Promise<string> {
  for (const end = Date.now() + ARRIVES_WITHIN_MS; Date.now() < end; await pause()) {
    const text = await inTime(vscode.env.clipboard.readText());
    if (text) return text;
  }
  return "";
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, LOOKS_EVERY_MS));
}

function inTime<T>(answer: Thenable<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late =
      "VS Code gave no access to the clipboard within 10 s. Allow it, or save the log and diagnose the file.";
    const timer = setTimeout(() => reject(new Error(late)), CLIPBOARD_PATIENCE_MS);
    Promise.resolve(answer)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}
