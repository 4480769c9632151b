/** Where nothing is selected and nothing has failed: what shall be diagnosed? */

import * as vscode from "vscode";
import { showMessage } from "../message";
import type { DiagnoseParams } from "../protocol";
import type { Executions } from "../terminal/executions";
import { inOneLine } from "./ask";
import { nameOf, ofClipboard, ofDocument, ofExecution, ofFiles, ofTerminalText } from "./sources";

type Source = () => Promise<DiagnoseParams | undefined> | DiagnoseParams | undefined;

interface Offer extends vscode.QuickPickItem {
  readonly take: Source;
  /** What to say where there is nothing in it. */
  readonly empty: string;
}

/** Asks, and returns the log; nothing where the user changed their mind. */
export async function askForLog(title: string, executions: Executions): Promise<DiagnoseParams | undefined> {
  const offer = await vscode.window.showQuickPick([...offers(executions)], {
    title,
    placeHolder: "Which log shall Remat diagnose?",
  });
  const log = await offer?.take();
  if (offer && !log && offer.empty) void showMessage("info", offer.empty);
  return log;
}

function* offers(executions: Executions): Generator<Offer> {
  const terminal = vscode.window.activeTerminal;
  const running = terminal && executions.runningIn(terminal);
  if (running) {
    const label = `$(sync) What ${inOneLine(running.command)} has printed so far`;
    const empty = "The command has printed nothing so far.";
    yield { label, description: "it still runs", take: () => printed(ofExecution(running)), empty };
  }
  if (terminal) {
    const label = `$(terminal) All text in terminal ${inOneLine(terminal.name)}`;
    yield { label, take: ofTerminalText, empty: "There is no text in that terminal." };
  }
  const document = vscode.window.activeTextEditor?.document;
  if (document && document.languageId !== "python" && document.lineCount > 1) {
    yield { label: `$(file) All of ${nameOf(document)}`, take: () => ofDocument(document), empty: "" };
  }
  yield {
    label: "$(clippy) The text on the clipboard",
    description: "copy the traceback first",
    take: ofClipboard,
    empty: "There is no text on the clipboard. Copy the traceback, then choose this again.",
  };
  yield { label: "$(file-text) Log files…", description: "several are one run", take: () => pickFiles(), empty: "" };
  yield {
    label: "$(folder) A folder of logs…",
    description: "torchrun --log-dir",
    take: () => pickFolder(),
    empty: "",
  };
}

export async function pickFiles(): Promise<DiagnoseParams | undefined> {
  const filters = { "Logs and text": ["log", "out", "err", "txt", "json"], "All files": ["*"] };
  const options = { canSelectMany: true, openLabel: "Diagnose", title: "Logs of one run", filters };
  return ofFiles((await vscode.window.showOpenDialog(options)) ?? []);
}

export async function pickFolder(): Promise<DiagnoseParams | undefined> {
  const options = { canSelectFiles: false, canSelectFolders: true, openLabel: "Diagnose", title: "Logs of one run" };
  return ofFiles((await vscode.window.showOpenDialog(options)) ?? []);
}

function printed(log: DiagnoseParams): DiagnoseParams | undefined {
  return log.text?.trim() ? log : undefined;
}
