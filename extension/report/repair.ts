/** Applies the quick fix that the server has for a finding: the same one as on Ctrl+. in the file. */

import * as vscode from "vscode";
import type { Repair } from "../protocol";
import type { Next } from "./messages";
import { openLine } from "./open";

type About = (words: string, next?: Next) => void;

export async function applyRepair(repair: Repair, panel: vscode.WebviewPanel, say: About): Promise<void> {
  const editor = await openLine(panel, repair.uri, repair.line + 1);
  if (!editor) return say("The file could not be opened.");
  const action = await quickFix(repair, editor.document);
  if (!action?.edit) {
    return say("This is no longer there: the file has changed, or the fix was applied already.", "none");
  }
  const applied = await vscode.workspace.applyEdit(action.edit);
  if (!applied) return say("VS Code refused the change: the file has changed meanwhile. Try again.");
  say("Applied. The file is not saved yet; Ctrl+Z in it takes the change back.", "save");
}

export async function saveRepaired(repair: Repair, say: About): Promise<void> {
  const saved = await vscode.workspace.save(vscode.Uri.parse(repair.uri, true));
  say(saved ? "Applied and saved." : "The file could not be saved.", saved ? "none" : "save");
}

/** The server's fix at that place, by its title: VS Code does not say for which finding an action is. */
async function quickFix(repair: Repair, document: vscode.TextDocument): Promise<vscode.CodeAction | undefined> {
  const at = new vscode.Position(repair.line, repair.character);
  const actions = await vscode.commands.executeCommand<(vscode.CodeAction | vscode.Command)[]>(
    "vscode.executeCodeActionProvider",
    document.uri,
    new vscode.Range(at, at),
    vscode.CodeActionKind.QuickFix.value,
  );
  return actions.find((one): one is vscode.CodeAction => "edit" in one && one.title === repair.title);
}
