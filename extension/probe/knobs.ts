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
  /** Batches for each step of the optimizer. */
  readonly gradAccum: number | null;
  readonly loraRank: number | null;
  /** Ranks that train together, of which the figures are one's. */
  readonly worldSize: number | null;
  /** What is put around the model: `none`, as the code has it, `ddp` or `fsdp2`. */
  readonly sharding: string;
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
  gradAccum: null,
  loraRank: null,
  worldSize: null,
  sharding: "none",
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

/** What a way is called, those that only advice comes up with included. */
export function nameOfWay(way: string): string {
  const first = /^first-(\d+)$/.exec(way)?.[1];
  if (first !== undefined) return first === "1" ? "First block" : `First ${first} blocks`;
  const every = /^every-(\d+)$/.exec(way)?.[1];
  return CHECKPOINTING.get(way) ?? (every === undefined ? way : `Every ${every}th block`);
}

/** The way that is called so, among those that are compared where the knobs are so. */
export function wayNamed(name: string | undefined, { checkpointing }: Knobs): string | undefined {
  return [checkpointing, ...CHECKPOINTING.keys()].find((way) => nameOfWay(way) === name);
}

/** Where the code as it is written stands among variants; -1 where it is none of them. */
export function placeOfWritten(variants: readonly { readonly name: string }[]): number {
  return variants.findIndex(({ name }) => name === nameOfWay(AS_WRITTEN));
}

export function variantOf({ gpu: _, ...knobs }: Knobs, checkpointing = knobs.checkpointing): Variant {
  return { ...knobs, checkpointing, name: nameOfWay(checkpointing) };
}

/** The knobs that make `variant`. */
export function knobsOf(variant: Variant, gpu: string | null): Knobs {
  return {
    checkpointing: variant.checkpointing ?? AS_WRITTEN,
    reentrant: variant.reentrant ?? false,
    dtype: variant.dtype ?? null,
    autocast: variant.autocast ?? null,
    optimizer: variant.optimizer ?? AS_WRITTEN,
    batch: variant.batch ?? null,
    seq: variant.seq ?? null,
    gradAccum: variant.gradAccum ?? null,
    loraRank: variant.loraRank ?? null,
    worldSize: variant.worldSize ?? null,
    sharding: variant.sharding ?? "none",
    gpu,
  };
}

/** Whether both are of the same step, however it is checkpointed. */
export function sameStep(one: Knobs, other: Knobs): boolean {
  return JSON.stringify({ ...one, checkpointing: "" }) === JSON.stringify({ ...other, checkpointing: "" });
}

/** The others to compare with, each with everything else the same. */
export function alternatives(knobs: Knobs): Variant[] {
  const others = [...CHECKPOINTING.keys()].filter((way) => way !== knobs.checkpointing);
  return others.map((way) => variantOf(knobs, way));
}

/** The options of `remat probe` that turn the same. */
const OPTIONS: readonly (readonly [option: string, knob: keyof Knobs])[] = [
  ["--checkpointing", "checkpointing"],
  ["--dtype", "dtype"],
  ["--autocast", "autocast"],
  ["--optimizer", "optimizer"],
  ["--batch", "batch"],
  ["--seq", "seq"],
  ["--grad-accum", "gradAccum"],
  ["--lora-rank", "loraRank"],
  ["--world-size", "worldSize"],
  ["--sharding", "sharding"],
  ["--gpu", "gpu"],
];

/** Options of `remat probe` that ask for the same. */
export function asOptions(knobs: Knobs): string[] {
  const turned = OPTIONS.filter(([, knob]) => knobs[knob] !== UNTURNED[knob]);
  return turned.flatMap(([option, knob]) => [option, String(knobs[knob])]);
}

/** The knobs that a text for the command line speaks of. */
export function knobsNamed(text: string): (keyof Knobs)[] {
  const words = new Set(text.match(/--[a-z-]+/g));
  return OPTIONS.flatMap(([option, knob]) => (words.has(option) ? [knob] : []));
}
