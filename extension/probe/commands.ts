/** The command that probes the model under the cursor. */

import * as vscode from "vscode";
import { showMessage } from "../message";
import type { Server } from "../server";
import type { Part } from "./page_messages";
import { ProbePanel } from "./panel";
import { hintSavedMemory } from "./saved_memory";
import { chooseModel } from "./targets";

export function registerProbe(root: vscode.Uri, server: Server): vscode.Disposable {
  const panel = new ProbePanel(root, server);
  return vscode.Disposable.from(
    panel,
    hintSavedMemory(panel),
    vscode.commands.registerCommand("remat.probe", (given: unknown) => probe(given, null, panel, server)),
    vscode.commands.registerCommand("remat.whyMemoryHigh", () => probe(undefined, "effect", panel, server)),
  );
}

async function probe(given: unknown, first: Part | null, panel: ProbePanel, server: Server): Promise<void> {
  if (!vscode.workspace.isTrusted) return explainTrust();
  try {
    const model = await chooseModel(given, server);
    if (model) await panel.probe(model, first);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    void showMessage("error", `Remat could not probe: ${why}`);
  }
}

async function explainTrust(): Promise<void> {
  const manage = "Manage workspace trust";
  const why = "A probe builds the model, which runs code of this workspace. Remat does so only where you trust it.";
  if ((await showMessage("warning", why, manage)) === manage) {
    await vscode.commands.executeCommand("workbench.trust.manage");
  }
}
