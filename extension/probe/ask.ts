/** Asks the server to probe, and hears how far it is. */

import type * as vscode from "vscode";
import { PROBE, type ProbeAnswer, type ProbeParams, type ProbeProgress } from "../protocol";
import type { Server } from "../server";
import { type Knobs, variantOf } from "./knobs";
import type { Variant } from "./messages";
import type { Model } from "./targets";

let asked = 0;

export async function askProbe(
  server: Server,
  model: Model,
  knobs: Knobs,
  variants: readonly Variant[],
  hear: (progress: ProbeProgress) => void,
  cancel: vscode.CancellationToken,
): Promise<ProbeAnswer> {
  asked += 1;
  const token = `probe-${asked}`;
  const params = { token, target: model.target, folder: model.folder.fsPath, variants, gpu: knobs.gpu };
  const listening = server.onProbeProgress((progress) => {
    if (progress.token === token) hear(progress);
  });
  try {
    return await server.request<ProbeParams, ProbeAnswer>(PROBE, params, cancel);
  } finally {
    listening.dispose();
  }
}

/** An answer with what another one adds: other variants of the same. */
export function joined(first: ProbeAnswer, more: ProbeAnswer): ProbeAnswer {
  return {
    ...first,
    seconds: first.seconds + more.seconds,
    variants: [...first.variants, ...more.variants],
    failures: [...first.failures, ...more.failures],
    cards: first.cards.map((card) => {
      const other = more.cards.find(({ name }) => name === card.name);
      return { ...card, verdicts: [...card.verdicts, ...(other?.verdicts ?? [])] };
    }),
  };
}

/** Whether the variant that the user asked for came out. */
export function hasAsked({ variants }: ProbeAnswer, knobs: Knobs): boolean {
  return variants[0]?.name === variantOf(knobs).name;
}
