/** Asks the server what a log says. */

import * as vscode from "vscode";
import { DIAGNOSE, type DiagnoseParams, type Diagnosis } from "../protocol";
import type { Server } from "../server";
import { withinRoom } from "../terminal/ends";

/** A text this long is read in seconds; of a longer one the ends are. A file is read as a whole, however long it is. */
const TEXT_ROOM = { head: 2_000_000, tail: 18_000_000 };

export function fitting(params: DiagnoseParams): DiagnoseParams {
  return params.text == null ? params : { ...params, text: withinRoom(params.text, TEXT_ROOM) };
}

export function ask(server: Server, params: DiagnoseParams, token: vscode.CancellationToken): Promise<Diagnosis> {
  return server.request<DiagnoseParams, Diagnosis>(DIAGNOSE, params, token);
}

/** A command line as the name of what is diagnosed. */
export function inOneLine(command: string): string {
  const line = command.replaceAll(/\s+/g, " ").trim();
  return line.length > LONGEST_NAME ? `${line.slice(0, LONGEST_NAME - 1)}…` : line;
}

const LONGEST_NAME = 80;

export function workspaceFolder(): string | null {
  return vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? null;
}
