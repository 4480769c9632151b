/** Has the server write a plan into the model's code, in the editor where it can be undone. */

import * as vscode from "vscode";
import { APPLY_PLAN, type PlanAnswer, type PlanBlocks, type PlanParams } from "../protocol";
import { openLine } from "../report/open";
import type { Server } from "../server";
import { placeOfWritten, wayNamed } from "./knobs";
import type { PlanPlace } from "./page_messages";
import type { Shown } from "./shown";
import { fileOfModel, type Model } from "./targets";

/** `way`: as in `Variant.checkpointing`. */
export interface Plan {
  readonly way: string;
  readonly blocks: readonly PlanBlocks[];
}

/** The plan that a button of the page is for, as the server gave it. */
export function planAt({ from, index }: PlanPlace, { answer, knobs, advised }: Shown): Plan | undefined {
  if (from === "variants") {
    const way = wayNamed(answer.variants[index]?.name, knobs);
    // To checkpoint none is to leave those alone that the code checkpoints as it is written.
    const blocks = answer.plans[way === "none" ? placeOfWritten(answer.variants) : index];
    return way !== undefined && blocks ? { way, blocks } : undefined;
  }
  const { changes = [], steps = [], fewestBlocks = null } = advised?.answer ?? {};
  const row = from === "fewest" ? fewestBlocks?.row : (from === "changes" ? changes : steps)[index];
  const way = row?.variant.checkpointing;
  return row && way !== undefined ? { way, blocks: row.plan ?? [] } : undefined;
}

/** Shows the file, then the change in it. */
export async function applyPlan(
  server: Server,
  model: Model,
  { way, blocks }: Plan,
  panel: vscode.WebviewPanel,
): Promise<PlanAnswer> {
  const file = fileOfModel(model);
  if (file && !(await openLine(panel, file.toString(), (model.place?.line ?? 0) + 1))) {
    return { applied: false, what: "The file could not be opened" };
  }
  const source = new vscode.CancellationTokenSource();
  const params = { target: model.target, folder: model.folder.fsPath, way, blocks };
  const answer = await server.request<PlanParams, PlanAnswer>(APPLY_PLAN, params, source.token);
  if (answer.applied) await openLine(panel, answer.uri, answer.line ?? 1);
  return answer;
}
