/** The files that a probe reads, and those that have changed since. */

import * as vscode from "vscode";
import type { Texts } from "./places";

/** The probe reads files, not what is typed. */
export async function saveAll(folder: vscode.Uri): Promise<void> {
  for (const document of vscode.workspace.textDocuments) {
    const isInside = document.uri.scheme === "file" && document.uri.path.startsWith(`${folder.path}/`);
    if (document.isDirty && isInside && document.languageId === "python") await document.save();
  }
}

/** Those that are no longer as they were in `texts`, by their names. */
export function changedSince(texts: Texts): string[] {
  const changed = vscode.workspace.textDocuments.filter((document) => {
    const { uri } = document;
    const was = uri.scheme === "file" ? texts.get(uri.fsPath) : undefined;
    return was !== undefined && was !== document.getText();
  });
  return changed.map(({ uri }) => vscode.workspace.asRelativePath(uri));
}
