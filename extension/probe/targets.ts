/** Which model is meant: the one under the cursor, of a lens, or one that is chosen from a list. */

import * as path from "node:path";
import * as vscode from "vscode";
import { PROBE_TARGETS, type ProbeTarget, type ProbeTargetsParams } from "../protocol";
import type { Server } from "../server";

/** A model to probe. `folder`: where relative paths in `target` start. */
export interface Model {
  readonly name: string;
  readonly target: string;
  readonly folder: vscode.Uri;
  /** The document it was found in, and the line of its class or call, from 0. */
  readonly place: { readonly uri: vscode.Uri; readonly line: number } | null;
}

interface Choice extends vscode.QuickPickItem {
  readonly found: ProbeTarget | null;
}

/** That of the lens, else the innermost around the cursor, else the user is asked. */
export async function chooseModel(given: unknown, server: Server): Promise<Model | undefined> {
  const editor = vscode.window.activeTextEditor;
  if (isTarget(given)) return modelOf(given, editor?.document.uri);
  const document = editor?.document;
  const found = document?.languageId === "python" ? await targetsIn(document, server) : [];
  const line = editor?.selection.active.line ?? 0;
  const first = firstCodeLine(document, line);
  const around = found.filter((one) => (one.line <= line && line <= one.lastLine) || one.line === first);
  const innermost = around.sort((a, b) => a.lastLine - a.line - (b.lastLine - b.line))[0];
  if (innermost) return modelOf(innermost, document?.uri);
  const [only, ...more] = found;
  if (only && more.length === 0) return modelOf(only, document?.uri);
  return pick(found, document);
}

/** From a comment or a decorator, the line of what it stands above. */
function firstCodeLine(document: vscode.TextDocument | undefined, line: number): number {
  let at = line;
  while (document && at < document.lineCount && /^[#@]/.test(document.lineAt(at).text)) at += 1;
  return at;
}

/** The same model where it is now: edits above it have moved its line. */
export async function stillThere(model: Model, server: Server): Promise<Model> {
  const line = /:(\d+)$/.exec(model.target)?.[1];
  const document = vscode.workspace.textDocuments.find(({ uri }) => uri.toString() === model.place?.uri.toString());
  if (line === undefined || !document) return model;
  const found = (await targetsIn(document, server)).filter(({ title }) => model.name.endsWith(`: ${title}`));
  const distance = (one: ProbeTarget) => Math.abs(one.line + 1 - Number(line));
  const nearest = found.sort((a, b) => distance(a) - distance(b))[0];
  return nearest ? modelOf(nearest, document.uri) : model;
}

/** The file that a target is in; `null` where it names a model without one. */
export function fileOfModel({ place, target, folder }: Model): vscode.Uri | null {
  if (place) return place.uri;
  const file = /^(?!hf:)(.+\.py)(?::\w+)?$/.exec(target)?.[1];
  if (file === undefined) return null;
  return path.isAbsolute(file) ? vscode.Uri.file(file) : vscode.Uri.joinPath(folder, file);
}

async function targetsIn(document: vscode.TextDocument, server: Server): Promise<ProbeTarget[]> {
  const source = new vscode.CancellationTokenSource();
  const params = { uri: document.uri.toString() };
  return server.request<ProbeTargetsParams, ProbeTarget[]>(PROBE_TARGETS, params, source.token);
}

async function pick(found: readonly ProbeTarget[], document: vscode.TextDocument | undefined) {
  if (found.length === 0) return ask();
  const choices: Choice[] = found.map((one) => ({
    label: one.title,
    description: `line ${one.line + 1}`,
    found: one,
  }));
  choices.push({ label: "Another model…", description: "a file and its class, or a Hugging Face model", found: null });
  const title = "Which model's memory is to be probed?";
  const choice = await vscode.window.showQuickPick(choices, { title, matchOnDescription: true });
  if (!choice) return undefined;
  return choice.found ? modelOf(choice.found, document?.uri) : ask();
}

async function ask(): Promise<Model | undefined> {
  const target = await vscode.window.showInputBox({
    title: "Which model's memory is to be probed?",
    prompt: "model.py:GPT, or hf: with a folder that holds a config.json or a model's name in the local cache",
    placeHolder: "model.py:GPT",
    ignoreFocusOut: true,
  });
  if (!target?.trim()) return undefined;
  return { name: target.trim(), target: target.trim(), folder: folderOf(undefined), place: null };
}

function modelOf({ title, target, line }: ProbeTarget, active: vscode.Uri | undefined): Model {
  const uri = active && target.startsWith(active.fsPath) ? active : fileOf(target);
  return {
    name: uri ? `${vscode.workspace.asRelativePath(uri)}: ${title}` : title,
    target,
    folder: folderOf(uri),
    place: uri ? { uri, line } : null,
  };
}

/** `/a/b.py:GPT` and `/a/b.py:12` are in `/a/b.py`. */
function fileOf(target: string): vscode.Uri | undefined {
  const file = target.replace(/:\w+$/, "");
  return path.isAbsolute(file) ? vscode.Uri.file(file) : undefined;
}

function folderOf(uri: vscode.Uri | undefined): vscode.Uri {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const around = uri ? vscode.workspace.getWorkspaceFolder(uri) : folders[0];
  return around?.uri ?? (uri ? vscode.Uri.joinPath(uri, "..") : vscode.Uri.file(process.cwd()));
}

function isTarget(given: unknown): given is ProbeTarget {
  return typeof given === "object" && given !== null && "target" in given && "lastLine" in given;
}
