/** Every message that pops up. VS Code makes a link of `[words](command:…)` in one; here what a log says stays text. */

import * as vscode from "vscode";

export type Level = "error" | "warning" | "info";

/** The button that was pressed, if one was. */
export function showMessage(level: Level, message: string, ...buttons: string[]): Thenable<string | undefined> {
  const text = withoutLinks(message);
  switch (level) {
    case "error":
      return vscode.window.showErrorMessage(text, ...buttons);
    case "warning":
      return vscode.window.showWarningMessage(text, ...buttons);
    case "info":
      return vscode.window.showInformationMessage(text, ...buttons);
  }
}

/** For every place where VS Code reads links in plain text: messages, titles of a progress, the language status. */
export function withoutLinks(text: string): string {
  return text.replaceAll("](", "] (");
}
