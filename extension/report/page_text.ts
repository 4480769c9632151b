/** The report's page as VS Code loads it: script and style are in it, so that it loads nothing. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as vscode from "vscode";

export async function pageFor(root: vscode.Uri): Promise<string> {
  const read = (name: string) => readFile(vscode.Uri.joinPath(root, "dist", name).fsPath, "utf8");
  const [script, style] = await Promise.all([read("report.js"), read("report-style.css")]);
  const nonce = randomBytes(18).toString("base64");
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; base-uri 'none'; form-action 'none'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Diagnosis</title>
<style nonce="${nonce}">${style}</style>
</head>
<body>
<main id="report" aria-live="off"></main>
<script nonce="${nonce}">${script}</script>
</body>
</html>`;
}
