/** Writes the comment that tells the probe a fact it lacks: `# remat: probe(…)`. */

import * as vscode from "vscode";
import { openLine } from "../report/open";
import { commentOf } from "./comment";
import type { Failure } from "./messages";
import type { Model } from "./targets";

const AT = /\bat (?<path>\S.*?):(?<line>\d+): # remat/;
const OWN = /^\s*#\s*remat:\s*probe\b/;

/** Above the line that the failure names, with the part to fill in selected. Says what came of it. */
export async function insertMissing(failure: Failure, model: Model, panel: vscode.WebviewPanel): Promise<string> {
  const comment = commentOf(failure);
  const place = placeOf(failure, model);
  if (!comment || !place) return "Add it by hand: where it belongs is not known.";
  const editor = await openLine(panel, place.uri.toString(), place.line + 1);
  if (!editor) return "The file could not be opened.";
  const { document } = editor;
  const line = Math.min(place.line, document.lineCount - 1);
  if (OWN.test(document.lineAt(Math.max(line - 1, 0)).text) || OWN.test(document.lineAt(line).text)) {
    return "There is a probe comment already: add to it what is missing.";
  }
  const indent = /^\s*/.exec(document.lineAt(line).text)?.[0] ?? "";
  const edit = new vscode.WorkspaceEdit();
  edit.insert(document.uri, new vscode.Position(line, 0), `${indent}${comment}\n`);
  if (!(await vscode.workspace.applyEdit(edit))) return "VS Code refused the change. Try again.";
  const selection = toFillIn(line, indent, comment);
  const viewColumn = editor.viewColumn ?? vscode.ViewColumn.Active;
  await vscode.window.showTextDocument(document, { viewColumn, selection });
  return comment.includes("...") || comment.includes("…")
    ? "Inserted. Fill in what is left open, then probe again."
    : "Inserted. Check the values, then probe again.";
}

function placeOf({ missing, location }: Failure, model: Model): { uri: vscode.Uri; line: number } | undefined {
  const named = missing && AT.exec(missing.how)?.groups;
  if (named?.path && named.line) {
    return { uri: vscode.Uri.joinPath(resolved(named.path, model), ""), line: Number(named.line) - 1 };
  }
  if (model.place) return { uri: model.place.uri, line: model.place.line };
  return location ? { uri: resolved(location.path, model), line: location.line - 1 } : undefined;
}

function resolved(path: string, { folder }: Model): vscode.Uri {
  const isAbsolute = path.startsWith("/") || /^[A-Za-z]:[\\/]/.test(path);
  return isAbsolute ? vscode.Uri.file(path) : vscode.Uri.joinPath(folder, path);
}

/** The first value that is left open, else the end of the line. */
function toFillIn(line: number, indent: string, comment: string): vscode.Selection {
  const open = /\.\.\.|…/.exec(comment);
  const start = indent.length + (open?.index ?? comment.length);
  return new vscode.Selection(line, start, line, start + (open?.[0].length ?? 0));
}
