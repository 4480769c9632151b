/** Inlay hints on the lines whose activations stay in memory for backward, as the last probe found them. */

import * as vscode from "vscode";
import { readSettings } from "../settings";
import { variantOf } from "./knobs";
import type { LineBytes } from "./messages";
import { inBytes } from "./numbers";
import type { ProbePanel } from "./panel";
import type { Shown } from "./shown";

/** Lines below this share of all that is saved are left in peace. */
const SMALLEST_SHARE = 0.002;

export function hintSavedMemory(panel: ProbePanel): vscode.Disposable {
  const changed = new vscode.EventEmitter<void>();
  let shown: Shown | undefined;
  const provider: vscode.InlayHintsProvider = {
    onDidChangeInlayHints: changed.event,
    provideInlayHints: (document, range) =>
      readSettings().showSavedMemory && shown ? hints(shown, document, range) : [],
  };
  return vscode.Disposable.from(
    changed,
    panel.onAnswer((answer) => {
      shown = answer;
      changed.fire();
    }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("remat.showSavedMemory")) changed.fire();
    }),
    vscode.languages.registerInlayHintsProvider({ scheme: "file", language: "python" }, provider),
  );
}

/** None where the text is no longer the one that was probed. */
function hints(
  { answer, texts, knobs }: Shown,
  document: vscode.TextDocument,
  range: vscode.Range,
): vscode.InlayHint[] {
  const variant = answer.variants.find(({ name }) => name === variantOf(knobs).name);
  const path = document.uri.fsPath;
  if (!variant || texts.get(path) !== document.getText()) return [];
  const smallest = variant.savedActivationBytes * SMALLEST_SHARE;
  return variant.byLine
    .filter((one) => one.path === path && one.bytes >= smallest && one.line <= document.lineCount)
    .map((one) => hint(one, variant.name, document))
    .filter(({ position }) => range.contains(position));
}

function hint({ line, bytes }: LineBytes, variant: string, document: vscode.TextDocument): vscode.InlayHint {
  const made = new vscode.InlayHint(document.lineAt(line - 1).range.end, `▲ ${inBytes(bytes)} saved here`);
  made.paddingLeft = true;
  made.tooltip = `What this line makes and forward keeps for backward, estimated by the last probe (checkpointing: ${variant.toLowerCase()}).`;
  return made;
}
