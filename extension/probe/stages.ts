/** What the probe is doing, in words. */

import type { ProbeProgress } from "../protocol";

export interface Said {
  readonly words: string;
  /** Percent of the whole since the last one of another variant. */
  readonly increment: number;
}

const STAGES: Readonly<Record<string, string>> = {
  import: "importing torch and the model's file",
  build: "building the model and tracing two steps",
  forward: "forward",
  backward: "backward",
  optimizer: "optimizer step",
  replay: "replaying the allocator",
  measure: "measuring",
  "self-check": "checking itself against this torch",
};

export function stageInWords({ stage, variant, done, of }: ProbeProgress): Said {
  const what = STAGES[stage] ?? stage;
  if (of === 0) return { words: `trying ${variant ?? "a change"} (${done} tried)`, increment: 0 };
  const which = variant === null || of < 2 ? "" : `${variant} (${Math.min(done + 1, of)} of ${of}): `;
  return { words: `${which}${what}`, increment: 0 };
}
