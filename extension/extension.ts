/** Connects VS Code with Remat's language server. What is wrong with the code is decided there, not here. */

import * as vscode from "vscode";
import { registerCommands } from "./commands";
import { diagnose, registerDiagnoseCommands } from "./diagnose/commands";
import { noticeFailures } from "./diagnose/notice";
import { ofLine } from "./diagnose/sources";
import { watchInterpreter } from "./interpreter";
import { registerProbe } from "./probe/commands";
import { Report } from "./report/report";
import { Server } from "./server";
import { needsNewProcess } from "./settings";
import { createStatus, PYTHON_FILES } from "./status";
import { Executions } from "./terminal/executions";
import { linkFailures } from "./terminal/links";

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Remat", { log: true });
  const status = createStatus();
  const running = new Server(context.extensionPath, log, status);
  server = running;
  context.subscriptions.push(
    log,
    status,
    vscode.workspace.onDidGrantWorkspaceTrust(() => running.wanted && running.restart("the workspace is trusted now")),
    vscode.workspace.onDidChangeWorkspaceFolders(() => running.reconsider()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (!running.wanted) return;
      if (needsNewProcess(event)) void running.restart("a setting changed");
      else if (event.affectsConfiguration("remat")) void running.settingsChanged();
    }),
  );
  void running.hasBegun
    .then(() => watchInterpreter(log, () => running.reconsider()))
    .then((watching) => context.subscriptions.push(watching));
  registerCommands(context, running, log);
  registerDiagnosis(context, running, log);
  context.subscriptions.push(registerProbe(context.extensionUri, running));
  startWithPython(context, running);
}

/** Terminals are watched from the start; the server is started by the first question. */
function registerDiagnosis(context: vscode.ExtensionContext, running: Server, log: vscode.LogOutputChannel): void {
  const executions = new Executions();
  log.info("watches the terminals");
  const report = new Report(context.extensionUri, running, executions);
  context.subscriptions.push(
    executions,
    report,
    registerDiagnoseCommands(executions, report),
    noticeFailures(executions, running, report, log),
    linkFailures((line, terminal) => diagnose(() => ofLine(line, terminal, executions), report)),
  );
}

function startWithPython(context: vscode.ExtensionContext, running: Server): void {
  // Not every document in Python is a file: VS Code keeps one of what is typed at a Python prompt in a terminal.
  const isPython = (document: vscode.TextDocument) => vscode.languages.match(PYTHON_FILES, document) > 0;
  if (vscode.workspace.textDocuments.some(isPython)) void running.start();
  context.subscriptions.push(
    vscode.workspace.onDidOpenTextDocument((document) => void (isPython(document) && running.start())),
  );
}

export function deactivate(): Promise<void> | undefined {
  return server?.stop();
}
