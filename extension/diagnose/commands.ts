/** The commands that diagnose a log, whatever it is taken from. */

import * as vscode from "vscode";
import { showMessage } from "../message";
import type { DiagnoseParams } from "../protocol";
import type { Report } from "../report/report";
import type { Executions } from "../terminal/executions";
import { askForLog, pickFiles, pickFolder } from "./question";
import { ofEditorSelection, ofFiles, ofLastFailed, ofTerminalSelection } from "./sources";

type Source = (...args: unknown[]) => Promise<DiagnoseParams | undefined> | DiagnoseParams | undefined;

export function registerDiagnoseCommands(executions: Executions, report: Report): vscode.Disposable {
  const nothing = "Nothing is selected, and no command has failed in a terminal";
  const asked = () => askForLog(nothing, executions);
  const sources: Record<string, Source> = {
    "remat.diagnoseSelection": async () => ofEditorSelection() ?? (await ofLastFailed(executions)) ?? asked(),
    "remat.diagnoseTerminalSelection": async (from) => (await selected(from)) ?? asked(),
    "remat.diagnoseLastFailed": async () =>
      (await ofLastFailed(executions)) ?? askForLog("No command has failed in a terminal", executions),
    "remat.diagnoseFile": (uri, uris) => ofFiles(chosen(uri, uris)) ?? pickFiles(),
    "remat.diagnoseFolder": (uri, uris) => ofFiles(chosen(uri, uris)) ?? pickFolder(),
  };
  return vscode.Disposable.from(
    ...Object.entries(sources).map(([name, source]) =>
      vscode.commands.registerCommand(name, (...args: unknown[]) => diagnose(() => source(...args), report)),
    ),
  );
}

export async function diagnose(source: Source, report: Report): Promise<void> {
  try {
    const log = await source();
    if (log) await report.diagnose(log);
  } catch (error) {
    if (error instanceof vscode.CancellationError) return;
    const why = error instanceof Error ? error.message : String(error);
    void showMessage("error", `Remat could not get at the log: ${why}`);
  }
}

/** The palette does not say where the user looks: with selections in both places they are asked. */
async function selected(from: unknown): Promise<DiagnoseParams | undefined> {
  const inEditor = from === undefined ? ofEditorSelection() : undefined;
  if (!inEditor) return ofTerminalSelection();
  const terminal = "The selection in the terminal";
  const choice = await vscode.window.showQuickPick([terminal, `The ${inEditor.name}`], {
    title: "Text is selected in two places",
  });
  if (choice === undefined) throw new vscode.CancellationError();
  return choice === terminal ? ofTerminalSelection() : inEditor;
}

/** The explorer's menu gives the file it was opened on, and all that are selected. */
function chosen(uri: unknown, uris: unknown): vscode.Uri[] {
  const all = Array.isArray(uris) && uris.length > 0 ? uris : [uri];
  return all.filter((one) => one instanceof vscode.Uri);
}
