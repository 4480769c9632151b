/** What the user turns in the panel, and the variants of the step that follow from it. */

import { AS_WRITTEN, type Variant } from "./messages";

/** `null`: as the user's code or the model's defaults say. */
export interface Knobs {
  readonly checkpointing: string;
  readonly reentrant: boolean;
  readonly dtype: string | null;
  readonly autocast: string | null;
  readonly optimizer: string;
  readonly batch: number | null;
  readonly seq: number | null;
  readonly loraRank: number | null;
  /** The card that the need is compared with; `null`: any. */
  readonly gpu: string | null;
}

export const UNTURNED: Knobs = {
  checkpointing: AS_WRITTEN,
  reentrant: false,
  dtype: null,
  autocast: null,
  optimizer: AS_WRITTEN,
  batch: null,
  seq: null,
  loraRank: null,
  gpu: null,
};

/** Every way to checkpoint that the panel compares, and what it is called. */
export const CHECKPOINTING: ReadonlyMap<string, string> = new Map([
  [AS_WRITTEN, "As written"],
  ["none", "None"],
  ["all", "Every block"],
  ["every-2", "Every 2nd block"],
  ["selective", "Selective"],
]);

export function variantOf({ gpu: _, ...knobs }: Knobs, checkpointing = knobs.checkpointing): Variant {
  return { ...knobs, checkpointing, name: CHECKPOINTING.get(checkpointing) ?? checkpointing };
}

/** The others to compare with, each with everything else the same. */
export function alternatives(knobs: Knobs): Variant[] {
  const others = [...CHECKPOINTING.keys()].filter((way) => way !== knobs.checkpointing);
  return others.map((way) => variantOf(knobs, way));
}

/** Options of `remat probe` that ask for the same. */
export function asOptions(knobs: Knobs): string[] {
  const given: [string, string | number | null][] = [
    ["--checkpointing", knobs.checkpointing === AS_WRITTEN ? null : knobs.checkpointing],
    ["--dtype", knobs.dtype],
    ["--autocast", knobs.autocast],
    ["--optimizer", knobs.optimizer === AS_WRITTEN ? null : knobs.optimizer],
    ["--batch", knobs.batch],
    ["--seq", knobs.seq],
    ["--lora-rank", knobs.loraRank],
    ["--gpu", knobs.gpu],
  ];
  return given.flatMap(([name, value]) => (value === null ? [] : [name, String(value)]));
}
