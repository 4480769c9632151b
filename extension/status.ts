/** The entry "Remat" in the editor's language status. */

import * as vscode from "vscode";
import { withoutLinks } from "./message";

export const PYTHON_FILES = [
  { scheme: "file", language: "python" },
  { scheme: "untitled", language: "python" },
];

export type Status = { show(state: State): void } & vscode.Disposable;

export type State =
  | { kind: "starting" }
  | { kind: "running"; detail: string }
  | { kind: "off" }
  | { kind: "failed"; detail: string };

const SHOW_LOGS = { command: "remat.showLogs", title: "Show logs" };

export function createStatus(): Status {
  const item = vscode.languages.createLanguageStatusItem("remat", PYTHON_FILES);
  item.name = "Remat";
  return {
    show(state) {
      item.busy = state.kind === "starting";
      item.severity =
        state.kind === "failed" ? vscode.LanguageStatusSeverity.Error : vscode.LanguageStatusSeverity.Information;
      item.text = TEXTS[state.kind];
      item.detail = "detail" in state ? withoutLinks(state.detail) : "";
      item.command = state.kind === "failed" ? { command: "remat.restart", title: "Restart" } : SHOW_LOGS;
    },
    dispose: () => item.dispose(),
  };
}

const TEXTS = { starting: "Remat starts", running: "Remat", off: "Remat is off", failed: "Remat stopped" };
