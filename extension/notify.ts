/** Messages that pop up, as loud as the user wants them. Each is in the log, whatever the setting. */

import type * as vscode from "vscode";
import { type Level, showMessage } from "./message";
import { type Loudness, readSettings } from "./settings";

const QUIETEST: Record<Level, readonly Loudness[]> = {
  error: ["onError", "onWarning", "always"],
  warning: ["onWarning", "always"],
  info: ["always"],
};

const LOG = { error: "error", warning: "warn", info: "info" } as const;

export async function notify(log: vscode.LogOutputChannel, level: Level, message: string): Promise<void> {
  log[LOG[level]](message);
  if (!QUIETEST[level].includes(readSettings().showNotifications)) return;
  if ((await showMessage(level, message, "Show logs")) !== undefined) log.show();
}
