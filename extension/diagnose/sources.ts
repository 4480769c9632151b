/** Where a log is taken from: what is selected, else the last command that failed, else what the user says. */

import * as path from "node:path";
import * as vscode from "vscode";
import type { DiagnoseParams } from "../protocol";
import { inTurn } from "../terminal/copied";
import type { Execution, Executions } from "../terminal/executions";
import { lastOutput, selectedText, wholeText } from "../terminal/text";
import { inOneLine, workspaceFolder } from "./ask";

export function ofExecution(execution: Execution): DiagnoseParams {
  return { name: inOneLine(execution.command) || "the last command", text: execution.output(), cwd: execution.cwd };
}

export function ofFiles(uris: readonly vscode.Uri[]): DiagnoseParams | undefined {
  const paths = uris.filter((uri) => uri.scheme === "file").map((uri) => uri.fsPath);
  const [first] = paths;
  if (first === undefined) return undefined;
  const name = paths.length === 1 ? path.basename(first) : `${paths.length} files: ${names(paths)}`;
  return { name, paths, cwd: workspaceFolder() ?? path.dirname(first) };
}

function names(paths: readonly string[]): string {
  return inOneLine(paths.map((file) => path.basename(file)).join(", "));
}

/** What is selected in the editor, with all of its cursors. */
export function ofEditorSelection(editor = vscode.window.activeTextEditor): DiagnoseParams | undefined {
  if (!editor) return undefined;
  const { document, selections } = editor;
  const text = selections.map((selection) => document.getText(selection)).join("\n");
  return text.trim() ? { name: `selection in ${nameOf(document)}`, text, cwd: workspaceFolder() } : undefined;
}

export async function ofTerminalSelection(): Promise<DiagnoseParams | undefined> {
  return ofTerminal("selection in terminal", await selectedText());
}

/** The command that failed last, where the user is; also one that failed before we watched. */
export async function ofLastFailed(executions: Executions): Promise<DiagnoseParams | undefined> {
  const active = vscode.window.activeTerminal;
  const failed = (active && executions.lastFailed(active)) ?? executions.lastFailed();
  if (failed) return ofExecution(failed);
  if (active && executions.runningIn(active)) return undefined; // its last output would be the end of another command
  return ofTerminal("last output of terminal", await lastOutput());
}

/** What stands around a line in a terminal: the command that printed it, or all that the terminal holds. */
export async function ofLine(
  line: string,
  terminal: vscode.Terminal,
  executions: Executions,
): Promise<DiagnoseParams | undefined> {
  for (const execution of [executions.runningIn(terminal), executions.lastFailed(terminal)]) {
    if (execution?.output().includes(line.trim())) return ofExecution(execution);
  }
  terminal.show(true);
  return ofTerminal("text of terminal", await wholeText());
}

export async function ofTerminalText(): Promise<DiagnoseParams | undefined> {
  return ofTerminal("text of terminal", await wholeText());
}

export function ofDocument(document: vscode.TextDocument): DiagnoseParams {
  const saved = document.uri.scheme === "file" && !document.isDirty;
  const cwd = workspaceFolder();
  if (saved) return { name: nameOf(document), paths: [document.uri.fsPath], cwd };
  return { name: nameOf(document), text: document.getText(), cwd };
}

export async function ofClipboard(): Promise<DiagnoseParams | undefined> {
  const text = await inTurn(async () => vscode.env.clipboard.readText());
  return text.trim() ? { name: "text of the clipboard", text, cwd: workspaceFolder() } : undefined;
}

export function nameOf(document: vscode.TextDocument): string {
  return path.basename(document.uri.path) || document.fileName;
}

function ofTerminal(how: string, text: string): DiagnoseParams | undefined {
  const terminal = vscode.window.activeTerminal;
  const cwd = terminal?.shellIntegration?.cwd;
  const name = terminal ? `${how} ${inOneLine(terminal.name)}` : how;
  return text.trim() ? { name, text, cwd: cwd?.scheme === "file" ? cwd.fsPath : workspaceFolder() } : undefined;
}
