/** Lines in a terminal that begin or sum up a failure become links. VS Code itself links the files in them. */

import * as vscode from "vscode";

interface FailureLink extends vscode.TerminalLink {
  readonly line: string;
  readonly terminal: vscode.Terminal;
}

/** Python's tracebacks, also with bars and prefixes around them, and the summary that torchelastic prints. */
const FAILURES =
  /Traceback \(most recent call last\)|Root Cause \(first observed failure\)|^\S+ FAILED$|ChildFailedError/;

export function linkFailures(diagnose: (line: string, terminal: vscode.Terminal) => unknown): vscode.Disposable {
  const provider: vscode.TerminalLinkProvider<FailureLink> = {
    provideTerminalLinks({ line, terminal }) {
      const found = FAILURES.exec(line);
      if (!found) return [];
      const place = { startIndex: found.index, length: found[0].length };
      return [{ ...place, tooltip: "Diagnose with Remat", line, terminal }];
    },
    handleTerminalLink: ({ line, terminal }) => void diagnose(line, terminal),
  };
  return vscode.window.registerTerminalLinkProvider(provider);
}
