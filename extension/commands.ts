/** What the command palette offers. */

import * as vscode from "vscode";
import { showMessage } from "./message";
import type { Server } from "./server";

export function registerCommands(context: vscode.ExtensionContext, server: Server, log: vscode.LogOutputChannel): void {
  const commands: Record<string, () => unknown> = {
    "remat.restart": () => server.restart("the user asked for it"),
    "remat.showLogs": () => log.show(),
    "remat.debugInformation": () => showDebugInformation(context, server),
    "remat.fixAll": fixAll,
  };
  for (const [name, run] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(name, run));
  }
}

async function fixAll(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (!document) return;
  const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider",
    document.uri,
    new vscode.Range(0, 0, document.lineCount, 0),
    "source.fixAll.remat",
  );
  const edit = actions[0]?.edit;
  if (edit) await vscode.workspace.applyEdit(edit);
  else void showMessage("info", "Remat finds nothing in this file that is safe to fix.");
}

async function showDebugInformation(context: vscode.ExtensionContext, server: Server): Promise<void> {
  const content = debugInformation(context, server);
  const document = await vscode.workspace.openTextDocument({ language: "markdown", content });
  await vscode.window.showTextDocument(document);
}

function debugInformation(context: vscode.ExtensionContext, server: Server): string {
  const { state, launch, pid, choice } = server.facts();
  const settings = vscode.workspace.getConfiguration("remat");
  const names = Object.keys(context.extension.packageJSON.contributes.configuration.properties);
  const lines = [
    `- Remat ${context.extension.packageJSON.version}, ${vscode.env.appName} ${vscode.version}, ${process.platform}-${process.arch}`,
    `- workspace: ${vscode.workspace.isTrusted ? "trusted" : "not trusted"}, ${vscode.workspace.workspaceFolders?.length ?? 0} folder(s)`,
    `- server: ${state}, pid ${pid ?? "none"}`,
    `- command: ${launch ? [launch.command, ...launch.args].join(" ") : "none"}`,
    ...[...(choice?.interpreters ?? [])].map(
      ([folder, python]) =>
        `- versions of ${folder || "loose files"} are read from ${python ?? "the .venv nearest to each file"}`,
    ),
    "",
    "Interpreters tried:",
    ...(choice?.tried ?? []).map((line) => `- ${line}`),
    "",
    "Settings:",
    ...names.map((name) => `- ${name}: ${JSON.stringify(settings.get(name.replace("remat.", "")))}`),
  ];
  return `# Remat: debug information\n\n${lines.join("\n")}\n`;
}
