/** What Remat adds to LSP. Written by scripts/write_protocol.py from server/remat/protocol.py. */

import type { Environment, Failure, Timeline, Variant, VariantResult } from "./probe/messages";

export const ADVISE = "remat/advise";
export const APPLY_PLAN = "remat/applyPlan";
export const DIAGNOSE = "remat/diagnose";
export const PROBE = "remat/probe";
export const PROBE_PROGRESS = "remat/probeProgress";
export const PROBE_TARGETS = "remat/probeTargets";
export const SNAPSHOT = "remat/snapshot";

/**
 * A log to diagnose: `text`, else `paths`, the files and folders of one run.
 *
 * `cwd`: where its relative paths are meant from. `permitted`: files outside the workspace that the user lets us read.
 */
export interface DiagnoseParams {
  readonly name: string;
  readonly text?: string | null;
  readonly paths?: readonly string[];
  readonly cwd?: string | null;
  readonly permitted?: readonly string[];
}

/** Something the log proves, by these lines, counted from 1. */
export interface Statement {
  readonly id: string;
  readonly summary: string;
  readonly lines: readonly number[];
}

/** A rank that failed because another one did. */
export interface Follower {
  readonly rank: number;
  readonly summary: string;
  readonly lines: readonly number[];
}

/** What the log does not hold, why it matters, and how to obtain it. */
export interface MissingFact {
  readonly fact: string;
  readonly why: string;
  readonly how: string;
}

/** A line of code, counted from 1, named as the log names it. `uri`: where it is on this machine, if it is. */
export interface CodePlace {
  readonly path: string;
  readonly line: number;
  readonly uri: string | null;
}

/** A lint finding that explains the failure. `line` and `character` as in LSP; `title` is that of its quick fix. */
export interface Repair {
  readonly uri: string;
  readonly line: number;
  readonly character: number;
  readonly rule: string;
  readonly message: string;
  readonly title: string | null;
  readonly safe: boolean;
}

/** From `start` to `end`, in UTF-16 units, a line of the log names line `line`, from 1, of a file that exists. */
export interface LogLink {
  readonly start: number;
  readonly end: number;
  readonly uri: string;
  readonly line: number;
}

/** A line of the log, counted from 1, without anything that could act. `proves`: some claim rests on it. */
export interface LogLine {
  readonly number: number;
  readonly text: string;
  readonly proves: boolean;
  readonly links: readonly LogLink[];
}

/** One file of a run that has several: its name among them, and the number of its first line in the whole log. */
export interface LogFile {
  readonly name: string;
  readonly firstLine: number;
}

/** A file that the log names as its own. `read`: it is part of the diagnosis; else it waits for permission. */
export interface EvidenceFile {
  readonly path: string;
  readonly what: string;
  readonly read: boolean;
}

/**
 * A report as an editor shows it.
 *
 * `log`: the lines that prove something, with those around them; `line_count`: of the whole; `files`: where each file
 * begins, if there are several. `shell`: `verify` can be run in a shell as it stands. `docs`: the page about this
 * kind. `markdown`: all of it to send, secrets masked.
 */
export interface Diagnosis {
  readonly name: string;
  readonly failed: boolean;
  readonly headline: string;
  readonly cause: Statement | null;
  readonly docs: string | null;
  readonly rank: number | null;
  readonly place: CodePlace | null;
  readonly followed: readonly Follower[];
  readonly fix: string | null;
  readonly repairs: readonly Repair[];
  readonly verify: string | null;
  readonly shell: boolean;
  readonly missing: readonly MissingFact[];
  readonly also: readonly Statement[];
  readonly decided: readonly Statement[];
  readonly log: readonly LogLine[];
  readonly lineCount: number;
  readonly files: readonly LogFile[];
  readonly evidence: readonly EvidenceFile[];
  readonly markdown: string;
}

/** Which models does the document at `uri` hold? */
export interface ProbeTargetsParams {
  readonly uri: string;
}

/** A model in a document, on lines from 0. `target` is what `remat probe` takes. */
export interface ProbeTarget {
  readonly title: string;
  readonly target: string;
  readonly line: number;
  readonly lastLine: number;
}

/**
 * Estimate or measure each of `variants`. A cancelled request ends the worker.
 *
 * `token` names it in its progress. `mode`: estimate, measure or auto. `folder`: where relative paths start.
 */
export interface ProbeParams {
  readonly token: string;
  readonly target: string;
  readonly folder: string;
  readonly variants: readonly Variant[];
  readonly device?: "cuda" | "cpu";
  readonly gpu?: string | null;
  readonly mode?: "estimate" | "measure" | "auto";
}

/** What the probe that `token` names is doing now; `done` of `of` variants are finished. */
export interface ProbeProgress {
  readonly token: string;
  readonly stage: string;
  readonly variant: string | null;
  readonly done: number;
  readonly of: number;
}

/** A graphics card. `verdicts`: for each variant, in order: fits, does not fit, or too close to call. */
export interface ProbeCard {
  readonly name: string;
  readonly usableBytes: number;
  readonly verdicts: readonly string[];
}

/** Modules of one list: `path` is where they stand, `decoder.layers.*`; of `of` of them `count` are checkpointed. */
export interface PlanBlocks {
  readonly path: string;
  readonly count: number;
  readonly of: number;
}

/**
 * What became of a probe. `environment`: None where the worker did not start.
 *
 * `gpu`: what the table calls the card that was asked for; None where it has none of that name. `plans`: for each
 * variant, in order, what its checkpointing came to, for `PlanParams`. `unmeasured`: why a measurement that was wanted
 * was not made.
 */
export interface ProbeAnswer {
  readonly target: string;
  readonly environment: Environment | null;
  readonly seconds: number;
  readonly variants: readonly VariantResult[];
  readonly failures: readonly Failure[];
  readonly cards: readonly ProbeCard[];
  readonly gpu: string | null;
  readonly plans: readonly (readonly PlanBlocks[])[];
  readonly unmeasured?: string | null;
}

/**
 * Checkpoint in the code of `target`. `way`: as in `Variant.checkpointing`; `blocks`: what that came to, and for the
 * way `none` what the code as written came to.
 */
export interface PlanParams {
  readonly target: string;
  readonly folder: string;
  readonly way: string;
  readonly blocks: readonly PlanBlocks[];
}

/**
 * What became of a plan. `applied`: the editor has made the edit at `uri`, from `line` on, counted from 1.
 *
 * `what`: the change, else why there is none. `notes`: what to know about it. `code`: what to write by hand instead.
 */
export interface PlanAnswer {
  readonly applied: boolean;
  readonly what: string;
  readonly notes?: readonly string[];
  readonly code?: string;
  readonly uri?: string | null;
  readonly line?: number | null;
}

/** What to change about `variant`, so that it needs less and fits into `gpu`. `token` names it in its progress. */
export interface AdviseParams {
  readonly token: string;
  readonly target: string;
  readonly folder: string;
  readonly variant: Variant;
  readonly gpu?: string | null;
}

/**
 * One change, simulated: the peak `before` and `after` it. `verdict`: whether that fits into the card, if any.
 *
 * `variant`: the one with the change. `plan`: what its checkpointing came to, where it is a plan that can be written.
 */
export interface AdviceRow {
  readonly what: string;
  readonly variant: Variant;
  readonly beforeBytes: number;
  readonly afterBytes: number;
  readonly peakPhase: string;
  readonly verdict?: string | null;
  readonly plan?: readonly PlanBlocks[];
}

/** `size`: the largest that surely fits, 0 where none does; `beyond` was tried and does not. */
export interface LargestBatch {
  readonly size: number;
  readonly beyond: number | null;
  readonly minimumBytes: number | null;
}

/** So that it fits, by checkpointing alone: `row`, for `count` of `of` blocks. Infeasible: not even all suffice. */
export interface FewestBlocks {
  readonly count: number;
  readonly of: number;
  readonly infeasible: boolean;
  readonly row: AdviceRow;
}

/**
 * What lowers the peak. `dominant`: what the peak consists of; `why`: why checkpointing alone moves it little.
 *
 * `changes`: single ones, the greatest gain first. `steps`: one on top of the other, until it fits into `gpu`.
 */
export interface AdviseAnswer {
  readonly gpu: string | null;
  readonly dominant: string;
  readonly why: string | null;
  readonly changes: readonly AdviceRow[];
  readonly steps: readonly AdviceRow[];
  readonly fits: boolean | null;
  readonly largestBatch: LargestBatch | null;
  readonly fewestBlocks: FewestBlocks | null;
  readonly simulated: number;
  readonly failures: readonly Failure[];
}

/** A file of `torch.cuda.memory._dump_snapshot`. */
export interface SnapshotParams {
  readonly path: string;
}

/** What a real run recorded; `peak_bytes` are those that tensors asked for. */
export interface Snapshot {
  readonly name: string;
  readonly timeline: Timeline;
  readonly peakBytes: number;
}
