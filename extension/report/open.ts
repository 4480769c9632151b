/** Opens a line of code beside the report. */

import * as vscode from "vscode";
import { showMessage } from "../message";

/** `line` is counted from 1. Files only: a log can name anything. */
export async function openLine(
  panel: vscode.WebviewPanel,
  uri: string | null | undefined,
  line: number | undefined,
): Promise<vscode.TextEditor | undefined> {
  if (!uri || line === undefined) return undefined;
  const target = vscode.Uri.parse(uri, true);
  if (target.scheme !== "file") return undefined;
  try {
    const document = await vscode.workspace.openTextDocument(target);
    const at = new vscode.Position(Math.min(Math.max(line - 1, 0), document.lineCount - 1), 0);
    return await vscode.window.showTextDocument(document, {
      viewColumn: besides(panel),
      selection: new vscode.Range(at, at),
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    void showMessage("error", `${target.fsPath} could not be opened: ${why}`);
    return undefined;
  }
}

/** Where there already is an editor, else a column that does not cover the report. */
function besides(panel: vscode.WebviewPanel): vscode.ViewColumn {
  const other = vscode.window.tabGroups.all.find(({ viewColumn }) => viewColumn !== panel.viewColumn);
  return other?.viewColumn ?? vscode.ViewColumn.Beside;
}
