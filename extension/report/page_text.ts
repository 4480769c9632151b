/** A page as VS Code loads it: script and style are in it, so that it loads nothing. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as vscode from "vscode";

/** The page whose script is `dist/<name>.js`, filling the element with that id. */
export async function pageFor(
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
