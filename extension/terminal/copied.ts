/** What VS Code's own copy commands copy: the only way to a terminal's selection. The clipboard is given back. */

import * as vscode from "vscode";

/** VS Code's command begins to copy before it returns, and a look comes after the copy: a few are for good measure. */
const LOOKS = 8;
const LOOKS_EVERY_MS = 25;
/** A browser that has not been allowed to read the clipboard never answers. */
const CLIPBOARD_PATIENCE_MS = 10_000;

let turn: Promise<unknown> = Promise.resolve();

/** Does `act` when all that use the clipboard before it are done: what one has put there is not what the user had. */
export function inTurn<T>(act: () => Promise<T>): Promise<T> {
  const mine = turn.then(act);
  turn = mine.catch(() => undefined);
  return mine;
}

/**
 * The text that `command` puts on the clipboard, or nothing. To be called in turn.
 *
 * What was on the clipboard is put back, unless the user has copied something meanwhile; extensions can give back text
 * only. It is read on this machine and sent nowhere.
 */
export async function copiedBy(command: string): Promise<string> {
  const before = await onClipboard();
  let ours = "";
  try {
    await inTime(vscode.env.clipboard.writeText(ours)); // so that a copy of the same text is seen, too
    await vscode.commands.executeCommand(command);
    ours = await arriving();
    return ours;
  } finally {
    if ((await onClipboard()) === ours) await inTime(vscode.env.clipboard.writeText(before));
  }
}

async function arriving(): Promise<string> {
  for (let looks = 0; looks < LOOKS; looks++) {
    if (looks > 0) await pause();
    const text = await onClipboard();
    if (text) return text;
  }
  return "";
}

function onClipboard(): Promise<string> {
  return inTime(vscode.env.clipboard.readText());
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
