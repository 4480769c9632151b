/** Connects VS Code with Remat's language server. What is wrong with the code is decided there, not here. */

import * as vscode from "vscode";
import { registerCommands } from "./commands";
import { watchInterpreter } from "./interpreter";
import { Server } from "./server";
import { needsNewProcess } from "./settings";
import { createStatus } from "./status";

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Remat", { log: true });
  const status = createStatus();
  const running = new Server(context.extensionPath, log, status);
  server = running;
  context.subscriptions.push(
    log,
    status,
    vscode.workspace.onDidGrantWorkspaceTrust(() => running.restart("the workspace is trusted now")),
    vscode.workspace.onDidChangeWorkspaceFolders(() => running.reconsider()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (needsNewProcess(event)) void running.restart("a setting changed");
      else if (event.affectsConfiguration("remat")) void running.settingsChanged();
    }),
  );
  registerCommands(context, running, log);
  void running
    .start()
    .then(() => watchInterpreter(log, () => running.reconsider()))
    .then((watching) => context.subscriptions.push(watching));
}

export function deactivate(): Promise<void> | undefined {
  return server?.stop();
}
