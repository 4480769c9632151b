/** A page as VS Code loads it: script and style are in it, so that it loads nothing. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as vscode from "vscode";

export interface Page {
  /** What VS Code calls its kind. */
  readonly view: string;
  readonly name: string;
  readonly title: string;
  /** Leave the cursor where it is. */
  readonly preserveFocus?: boolean;
}

/** A panel beside the editor with a page in it; `loaded` once it has been given its text. It loads nothing itself. */
export function openPage<Message>(
  root: vscode.Uri,
  { view, name, title, preserveFocus = false }: Page,
  hear: (message: Message) => unknown,
  closed: () => void,
): { readonly panel: vscode.WebviewPanel; readonly loaded: Promise<void> } {
  const viewColumn = vscode.window.activeTextEditor ? vscode.ViewColumn.Beside : vscode.ViewColumn.Active;
  const panel = vscode.window.createWebviewPanel(
    view,
    title,
    { viewColumn, preserveFocus },
    { enableScripts: true, enableFindWidget: true, localResourceRoots: [] },
  );
  panel.webview.onDidReceiveMessage((message: Message) => void hear(message));
  panel.onDidDispose(closed);
  const loaded = pageFor(root, { name, title }).then((text) => {
    panel.webview.html = text;
  });
  return { panel, loaded };
}

/** The page whose script is `dist/<name>.js`, filling the element with that id. */
async function pageFor(
  root: vscode.Uri,
  { name, title }: { readonly name: string; readonly title: string },
): Promise<string> {
  const read = (file: string) => readFile(vscode.Uri.joinPath(root, "dist", file).fsPath, "utf8");
  const [script, style] = await Promise.all([read(`${name}.js`), read(`${name}-style.css`)]);
  const nonce = randomBytes(18).toString("base64");
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; base-uri 'none'; form-action 'none'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style nonce="${nonce}">${style}</style>
</head>
<body>
<main id="${name}" aria-live="off"></main>
<script nonce="${nonce}">${script}</script>
</body>
</html>`;
}
