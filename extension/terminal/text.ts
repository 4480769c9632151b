/** The text of a terminal, as far as extensions get at it. */

import * as vscode from "vscode";
import { copiedBy } from "./copied";

const TERMINAL = "workbench.action.terminal";

/** What is selected in the active terminal. Only where something is: VS Code complains otherwise. */
export function selectedText(): Promise<string> {
  return copiedBy(`${TERMINAL}.copySelection`);
}

/** What the last command printed, also before we watched. Nothing without shell integration. */
export async function lastOutput(): Promise<string> {
  return vscode.window.activeTerminal?.shellIntegration ? copiedBy(`${TERMINAL}.copyLastCommandOutput`) : "";
}

/** All that the active terminal still holds. Takes the place of what was selected. */
export async function wholeText(): Promise<string> {
  await vscode.commands.executeCommand(`${TERMINAL}.selectAll`);
  try {
    return await selectedText();
  } finally {
    await vscode.commands.executeCommand(`${TERMINAL}.clearSelection`);
  }
}
