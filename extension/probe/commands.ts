/** The commands that probe the model under the cursor, compare it with what it was, and open what a run recorded. */

import * as vscode from "vscode";
import { showMessage } from "../message";
import type { Server } from "../server";
import type { Part } from "./page_messages";
import { ProbePanel } from "./panel";
import { hintSavedMemory } from "./saved_memory";
import { openSnapshot } from "./snapshot";
import { chooseModel } from "./targets";

export function registerProbe(root: vscode.Uri, server: Server): vscode.Disposable {
  const panel = new ProbePanel(root, server);
  const register = vscode.commands.registerCommand;
  return vscode.Disposable.from(
    panel,
    hintSavedMemory(panel),
    register("remat.probe", (given: unknown) => probe(given, null, panel, server)),
    register("remat.whyMemoryHigh", () => probe(undefined, "effect", panel, server)),
    register("remat.compareMemory", () => compare(panel)),
    register("remat.openSnapshot", (given: unknown) => openSnapshot(given, panel, server)),
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

async function compare(panel: ProbePanel): Promise<void> {
  if (await panel.compare()) return;
  void showMessage("info", "Nothing to compare with yet: probe the model, change its code, then compare.");
}

async function explainTrust(): Promise<void> {
  const manage = "Manage workspace trust";
  const why = "A probe builds the model, which runs code of this workspace. Remat does so only where you trust it.";
  if ((await showMessage("warning", why, manage)) === manage) {
    await vscode.commands.executeCommand("workbench.trust.manage");
  }
}
