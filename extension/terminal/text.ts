/** The text of a terminal, as far as extensions get at it. */

import * as vscode from "vscode";
import { copiedBy, inTurn } from "./copied";

const TERMINAL = "workbench.action.terminal";
const COPY_SELECTION = `${TERMINAL}.copySelection`;

/** What is selected in the active terminal. Only where something is: VS Code complains otherwise. */
export function selectedText(): Promise<string> {
  return inTurn(() => copiedBy(COPY_SELECTION));
}

/** What the last command printed, also before we watched. Nothing without shell integration. */
export async function lastOutput(): Promise<string> {
  return vscode.window.activeTerminal?.shellIntegration
    ? inTurn(() => copiedBy(`${TERMINAL}.copyLastCommandOutput`))
    : "";
}

/** All that the active terminal still holds. Takes the place of what was selected. */
export function wholeText(): Promise<string> {
  return inTurn(async () => {
    await vscode.commands.executeCommand(`${TERMINAL}.selectAll`);
    try {
      return await copiedBy(COPY_SELECTION);
    } finally {
      await vscode.commands.executeCommand(`${TERMINAL}.clearSelection`);
    }
  });
}
