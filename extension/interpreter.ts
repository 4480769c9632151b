/** Where the user's Python may be, best guess first. Other extensions are asked if they are there; none is required. */

import * as path from "node:path";
import * as vscode from "vscode";
import { readSettings } from "./settings";

export interface Candidate {
  readonly command: string;
  readonly source: string;
  /** Whether versions are read from it: what the server finds by itself, nearer to each file, is not forced on it. */
  readonly versions: "always" | "where it has torch" | "never";
}

interface EnvironmentsApi {
  getEnvironment(scope: vscode.Uri | undefined): Promise<{ execInfo?: { run?: { executable?: string } } } | undefined>;
  onDidChangeEnvironment?: vscode.Event<unknown>;
}

interface PythonApi {
  environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(path: { path: string }): Promise<{ executable?: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath?: vscode.Event<unknown>;
  };
}

export const SETTING = "the setting remat.interpreter";
const ENVIRONMENTS = "ms-python.vscode-python-envs";
const PYTHON = "ms-python.python";
const PATIENCE_MS = 10_000;

/** Candidates for one folder. In a workspace that is not trusted only what the user chose, and `PATH`. */
export async function* candidates(
  folder: vscode.WorkspaceFolder | undefined,
  log: vscode.LogOutputChannel,
): AsyncGenerator<Candidate> {
  const { interpreter } = readSettings(folder);
  if (interpreter) yield { command: interpreter, source: SETTING, versions: "always" };
  if (vscode.workspace.isTrusted) {
    const chosen = [
      [ENVIRONMENTS, "the Python Environments extension", fromEnvironments],
      [PYTHON, "the Python extension", fromPython],
    ] as const;
    for (const [id, source, ask] of chosen) {
      const command = await tolerantly(id, log, () => ask(folder?.uri));
      if (command) yield { command, source, versions: "always" };
    }
    const beside = folder && (await inVenv(folder));
    if (beside) yield { command: beside, source: ".venv beside the workspace", versions: "never" };
  }
  for (const command of onPath()) yield { command, source: "PATH", versions: "where it has torch" };
}

/** Fires when another extension's choice of interpreter may have changed. */
export async function watchInterpreter(log: vscode.LogOutputChannel, changed: () => void): Promise<vscode.Disposable> {
  const events = [
    await tolerantly(ENVIRONMENTS, log, async () => (await api<EnvironmentsApi>(ENVIRONMENTS))?.onDidChangeEnvironment),
    await tolerantly(
      PYTHON,
      log,
      async () => (await api<PythonApi>(PYTHON))?.environments?.onDidChangeActiveEnvironmentPath,
    ),
  ];
  return vscode.Disposable.from(...events.flatMap((event) => (event ? [event(() => changed())] : [])));
}

async function fromEnvironments(scope: vscode.Uri | undefined): Promise<string | undefined> {
  const environments = await api<EnvironmentsApi>(ENVIRONMENTS);
  return (await environments?.getEnvironment(scope))?.execInfo?.run?.executable;
}

async function fromPython(resource: vscode.Uri | undefined): Promise<string | undefined> {
  const environments = (await api<PythonApi>(PYTHON))?.environments;
  const active = environments?.getActiveEnvironmentPath(resource);
  return active && (await environments?.resolveEnvironment(active))?.executable?.uri?.fsPath;
}

async function api<T>(id: string): Promise<T | undefined> {
  const extension = vscode.extensions.getExtension<T | null>(id);
  return (await extension?.activate()) ?? undefined;
}

async function tolerantly<T>(id: string, log: vscode.LogOutputChannel, ask: () => Promise<T>): Promise<T | undefined> {
  const late = new Promise<never>((_, reject) => {
    setTimeout(() => reject(new Error(`no answer within ${PATIENCE_MS / 1000} s`)), PATIENCE_MS).unref();
  });
  late.catch(() => undefined);
  try {
    return await Promise.race([ask(), late]);
  } catch (error) {
    log.warn(
      `${id} did not say which interpreter is chosen: ${error instanceof Error ? error.message : String(error)}`,
    );
    return undefined;
  }
}

async function inVenv(folder: vscode.WorkspaceFolder): Promise<string | undefined> {
  const python = process.platform === "win32" ? path.join("Scripts", "python.exe") : path.join("bin", "python");
  const uri = vscode.Uri.joinPath(folder.uri, ".venv", python);
  return vscode.workspace.fs.stat(uri).then(
    () => uri.fsPath,
    () => undefined,
  );
}

function onPath(): string[] {
  if (process.platform === "win32") return ["python", "py"];
  return ["python3", ...[14, 13, 12, 11, 10].map((minor) => `python3.${minor}`), "python"];
}
