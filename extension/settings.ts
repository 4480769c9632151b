/** What the user set under `remat.` in the editor. */

import { homedir } from "node:os";
import * as vscode from "vscode";

export type ImportStrategy = "useBundled" | "fromEnvironment";
export type Loudness = "off" | "onError" | "onWarning" | "always";

export interface Settings {
  readonly enable: boolean;
  readonly interpreter: string | null;
  readonly importStrategy: ImportStrategy;
  readonly path: string | null;
  readonly args: readonly string[];
  readonly logLevel: string;
  readonly showNotifications: Loudness;
  readonly diagnoseFailedCommands: boolean;
  /** The card that a probe compares with; null: any. */
  readonly gpu: string | null;
  readonly showSavedMemory: boolean;
}

/** Settings that decide which process runs: a change of one starts the server anew. */
const OF_THE_PROCESS = ["enable", "interpreter", "importStrategy", "path", "args"];

export function readSettings(folder?: vscode.WorkspaceFolder): Settings {
  const values = vscode.workspace.getConfiguration("remat", folder ?? null);
  return {
    enable: values.get<boolean>("enable", true),
    interpreter: expand(values.get<string | null>("interpreter", null), folder),
    importStrategy: values.get<ImportStrategy>("importStrategy", "useBundled"),
    path: expand(values.get<string | null>("path", null), folder),
    args: values.get<string[]>("args", []),
    logLevel: values.get<string>("logLevel", "info"),
    showNotifications: values.get<Loudness>("showNotifications", "onWarning"),
    diagnoseFailedCommands: values.get<boolean>("diagnoseFailedCommands", true),
    gpu: values.get<string>("gpu", "").trim() || null,
    showSavedMemory: values.get<boolean>("showSavedMemory", true),
  };
}

export function needsNewProcess(event: vscode.ConfigurationChangeEvent): boolean {
  return OF_THE_PROCESS.some((name) => event.affectsConfiguration(`remat.${name}`));
}

/** The part of the settings that the server itself reads. */
export function forServer(settings: Settings): { logLevel: string } {
  return { logLevel: settings.logLevel };
}

function expand(value: string | null, folder?: vscode.WorkspaceFolder): string | null {
  const expanded = value
    ?.trim()
    .replaceAll("${workspaceFolder}", () => folder?.uri.fsPath ?? "")
    .replace(/^~(?=[/\\])/, () => homedir());
  return expanded ? expanded : null;
}
