/** Runs the command that checks a fix, in a terminal of Remat's own. */

import * as vscode from "vscode";
import type { Diagnosis } from "../protocol";
import type { Executions } from "../terminal/executions";

const NAME = "Remat";
// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal acts on them
const ACTS = /[\u0000-\u001f\u007f-\u009f]/;

/** Only a whole command that the server calls one, and only where the user trusts the workspace. */
export async function runInTerminal(
  { verify, shell, repairs }: Diagnosis,
  cwd: string | null,
  executions: Executions,
  say: (words: string) => void,
): Promise<void> {
  if (!verify || !shell || ACTS.test(verify)) return say("This is not a command that runs as it stands.");
  if (!vscode.workspace.isTrusted) return say("Nothing is run in a workspace that you have not trusted.");
  for (const document of vscode.workspace.textDocuments) {
    if (document.isDirty && repairs.some(({ uri }) => uri === document.uri.toString())) await document.save();
  }
  const terminal = idle(cwd, executions) ?? vscode.window.createTerminal(cwd ? { name: NAME, cwd } : { name: NAME });
  terminal.show(true);
  terminal.sendText(verify);
  say("It runs in the terminal Remat.");
}

/** One of ours in that folder, in which nothing runs as far as is known. */
function idle(cwd: string | null, executions: Executions): vscode.Terminal | undefined {
  return vscode.window.terminals.find((terminal) => {
    const { creationOptions: options, name, exitStatus } = terminal;
    const isOurs = name === NAME && exitStatus === undefined && ("cwd" in options ? options.cwd : null) === cwd;
    return isOurs && !executions.runningIn(terminal);
  });
}
