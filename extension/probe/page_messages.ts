/** What the probe's page and the extension tell each other. */

import type { AdviseAnswer, PlanAnswer, ProbeAnswer, ProbeProgress, Snapshot } from "../protocol";
import type { Knobs } from "./knobs";
import type { VariantResult } from "./messages";

/** A part of the page that is wanted first. */
export type Part = "effect";

/** What is probed, and what is run for it. */
export interface Subject {
  /** What people call it: `train.py: GPT`. */
  readonly name: string;
  readonly command: string;
  readonly python: string;
}

/** A mistake that the language server sees in the code, on a line from 1. */
export interface Finding {
  readonly path: string;
  readonly line: number;
  readonly rule: string;
  readonly message: string;
}

/** The text of a line of code, by `path:line`. */
export type Code = Readonly<Record<string, string>>;

export type Device = "cuda" | "cpu";

/** The step that `knobs` ask for, run on this machine, beside what was expected of it. */
export interface Measurement {
  readonly device: Device;
  readonly measured: VariantResult;
  readonly estimated: VariantResult | null;
  readonly knobs: Knobs;
  /** Why it is the CPU that was measured. */
  readonly notOnGpu: string | null;
}

/** Advice on the step that `knobs` ask for. */
export interface Advised {
  readonly answer: AdviseAnswer;
  readonly knobs: Knobs;
}

/** What the code as written needed before it was changed. */
export interface Before {
  readonly variant: VariantResult;
  readonly knobs: Knobs;
}

/** Where a plan stands that can be written into the code: which list, and its place there. */
export interface PlanPlace {
  readonly from: "variants" | "changes" | "steps" | "fewest";
  readonly index: number;
}

/** What became of the plan at that place. */
export interface Planned extends PlanPlace {
  readonly answer: PlanAnswer;
}

/** All that is shown about a model. One of the variants is that of the knobs, if it came out. */
export interface Figures {
  readonly answer: ProbeAnswer;
  readonly knobs: Knobs;
  readonly code: Code;
  readonly findings: readonly Finding[];
  readonly before: Before | null;
  readonly advised: Advised | null;
  readonly measurement: Measurement | null;
  readonly planned: Planned | null;
}

export type ToPage =
  /** Another model, or the page has begun anew. */
  | { readonly kind: "begun"; readonly subject: Subject; readonly knobs: Knobs; readonly first: Part | null }
  /** `progress`: the last that was heard; null before the first. */
  | { readonly kind: "running"; readonly progress: ProbeProgress | null }
  | { readonly kind: "idle"; readonly cancelled: boolean }
  | { readonly kind: "answer"; readonly figures: Figures; readonly subject: Subject }
  /** Files that are no longer as they were when the answer came, by their names. */
  | { readonly kind: "outdated"; readonly files: readonly string[] }
  /** There is no answer at all. */
  | { readonly kind: "problem"; readonly why: string }
  | { readonly kind: "said"; readonly about: string; readonly words: string }
  /** What a real run recorded, in place of a model. */
  | { readonly kind: "recorded"; readonly snapshot: Snapshot };

export type FromPage =
  | { readonly kind: "ready" }
  | { readonly kind: "ask"; readonly knobs: Knobs }
  /** Of the same step, another variant of the answer. */
  | { readonly kind: "select"; readonly knobs: Knobs }
  | { readonly kind: "again" }
  /** As written, once more, beside what it needed before. */
  | { readonly kind: "compare" }
  | { readonly kind: "advise" }
  | { readonly kind: "measure" }
  | ({ readonly kind: "apply" } & PlanPlace)
  | { readonly kind: "openPlanned" }
  | { readonly kind: "copyPlanned" }
  | { readonly kind: "cancel" }
  | { readonly kind: "open"; readonly path: string; readonly line: number }
  | { readonly kind: "insert"; readonly failure: number }
  | { readonly kind: "copyCommand" }
  | { readonly kind: "showLogs" }
  | { readonly kind: "restart" };
