/** Messages that pop up, as loud as the user wants them. Each is in the log, whatever the setting. */

import * as vscode from "vscode";
import { type Loudness, readSettings } from "./settings";

export type Level = "error" | "warning" | "info";

const QUIETEST: Record<Level, readonly Loudness[]> = {
  error: ["onError", "onWarning", "always"],
  warning: ["onWarning", "always"],
  info: ["always"],
};

const LOG = { error: "error", warning: "warn", info: "info" } as const;

const SHOW: Record<Level, (message: string, button: string) => Thenable<string | undefined>> = {
  error: (message, button) => vscode.window.showErrorMessage(message, button),
  warning: (message, button) => vscode.window.showWarningMessage(message, button),
  info: (message, button) => vscode.window.showInformationMessage(message, button),
};

export async function notify(log: vscode.LogOutputChannel, level: Level, message: string): Promise<void> {
  log[LOG[level]](message);
  if (!QUIETEST[level].includes(readSettings().showNotifications)) return;
  if ((await SHOW[level](message, "Show logs")) !== undefined) log.show();
}
