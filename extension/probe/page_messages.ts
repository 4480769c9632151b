/** What the probe's page and the extension tell each other. */

import type { ProbeAnswer, ProbeProgress } from "../protocol";
import type { Knobs } from "./knobs";

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

export type ToPage =
  /** Another model, or the page has begun anew. */
  | { readonly kind: "begun"; readonly subject: Subject; readonly knobs: Knobs; readonly first: Part | null }
  /** `progress`: the last that was heard; null before the first. */
  | { readonly kind: "running"; readonly progress: ProbeProgress | null }
  | { readonly kind: "idle"; readonly cancelled: boolean }
  /** One of the variants is that of the knobs, if it came out. */
  | {
      readonly kind: "answer";
      readonly answer: ProbeAnswer;
      readonly knobs: Knobs;
      readonly subject: Subject;
      readonly code: Code;
      readonly findings: readonly Finding[];
    }
  /** Files that are no longer as they were when the answer came, by their names. */
  | { readonly kind: "outdated"; readonly files: readonly string[] }
  /** There is no answer at all. */
  | { readonly kind: "problem"; readonly why: string }
  | { readonly kind: "said"; readonly about: string; readonly words: string };

export type FromPage =
  | { readonly kind: "ready" }
  | { readonly kind: "ask"; readonly knobs: Knobs }
  /** Of the same step, another variant of the answer. */
  | { readonly kind: "select"; readonly knobs: Knobs }
  | { readonly kind: "again" }
  | { readonly kind: "cancel" }
  | { readonly kind: "open"; readonly path: string; readonly line: number }
  | { readonly kind: "insert"; readonly failure: number }
  | { readonly kind: "copyCommand" }
  | { readonly kind: "showLogs" }
  | { readonly kind: "restart" };
