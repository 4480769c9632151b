/** The command that starts the server, or why there is none. */

import * as vscode from "vscode";
import { type Choice, choose } from "./choice";
import { launcher } from "./python";
import { readSettings, type Settings } from "./settings";

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  /** For people: what runs where. */
  readonly description: string;
  readonly choice: Choice;
}

export interface NoLaunch {
  readonly problem: string;
  readonly choice: Choice;
}

export async function findLaunch(root: string, log: vscode.LogOutputChannel): Promise<Launch | NoLaunch> {
  const folders = vscode.workspace.workspaceFolders ?? [undefined];
  const settings = readSettings(folders[0]);
  const choice = await choose(folders, root, settings.importStrategy, log);
  if (settings.path) {
    return { command: settings.path, args: ["lsp", ...settings.args], description: settings.path, choice };
  }
  const python = choice.server;
  if (!python) return { problem: noPython(settings, choice), choice };
  // As flags, since -E also drops the variables that would say the same.
  const isolated = ["-s", "-E", "-X", "utf8", launcher(root), settings.importStrategy, ...settings.args];
  const description = `${python.implementation} ${python.version} (${python.source})`;
  return { command: python.executable, args: isolated, description, choice };
}

function noPython(settings: Settings, choice: Choice): string {
  const needed =
    settings.importStrategy === "fromEnvironment"
      ? "Remat needs a Python 3.10 or later in which the package remat is installed (remat.importStrategy is fromEnvironment)"
      : "Remat needs a CPython between 3.10 and 3.14";
  const likeliest = choice.tried.find((line) => !line.includes("does not exist"));
  const found = likeliest ? `found only ${likeliest}` : "found no Python at all";
  return `${needed}, ${found}. Install one or set remat.interpreter to one.`;
}
