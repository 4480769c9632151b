/** Opens a memory snapshot that a real run recorded, from a menu or a dialog. */

import * as vscode from "vscode";
import { showMessage } from "../message";
import { SNAPSHOT, type Snapshot, type SnapshotParams } from "../protocol";
import type { Server } from "../server";
import type { ProbePanel } from "./panel";

export async function openSnapshot(given: unknown, panel: ProbePanel, server: Server): Promise<void> {
  const file = given instanceof vscode.Uri ? given : await chosen();
  if (!file) return;
  const source = new vscode.CancellationTokenSource();
  const reading = { location: vscode.ProgressLocation.Window, title: "Remat reads a memory snapshot" };
  try {
    const params = { path: file.fsPath };
    const snapshot = await vscode.window.withProgress(reading, () =>
      server.request<SnapshotParams, Snapshot>(SNAPSHOT, params, source.token),
    );
    await panel.record(snapshot);
  } catch (error) {
    void showMessage("error", error instanceof Error ? error.message : String(error));
  }
}

async function chosen(): Promise<vscode.Uri | undefined> {
  const files = await vscode.window.showOpenDialog({
    title: "Open Memory Snapshot",
    openLabel: "Open",
    filters: { "Memory snapshots": ["pickle", "pkl"], "All files": ["*"] },
  });
  return files?.[0];
}
