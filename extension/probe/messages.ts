/** What a probe is told and tells. Written by scripts/write_protocol.py from server/remat/probe/messages.py. */

export const AS_WRITTEN = "as-written";
export const AGREES_WITHIN = 0.02;
export const MATTERS_FROM = 1048576.0;

/** One way to run the step. `None` means: as the user's code or the target's defaults say. */
export interface Variant {
  readonly name: string;
  readonly checkpointing?: string;
  readonly reentrant?: boolean;
  readonly dtype?: string | null;
  readonly autocast?: string | null;
  readonly optimizer?: string;
  readonly batch?: number | null;
  readonly seq?: number | null;
  readonly gradAccum?: number | null;
  readonly loraRank?: number | null;
  readonly loraTargets?: readonly string[];
  readonly worldSize?: number | null;
  readonly sharding?: string;
}

export interface Limits {
  readonly seconds?: number;
  readonly memoryBytes?: number | null;
}

export interface Request {
  readonly target: string;
  readonly variants: readonly Variant[];
  readonly folder?: string;
  readonly device?: "cuda" | "cpu";
  readonly gpu?: string | null;
  readonly mode?: "estimate" | "measure" | "auto";
  readonly limits?: Limits;
  readonly snapshot?: string | null;
}

export interface Location {
  readonly path: string;
  readonly line: number;
}

/** A fact the probe can't know, and the line or option that tells it. */
export interface Missing {
  readonly fact: string;
  readonly how: string;
}

/** Both ends are the same where the value is known. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

/** Activations that forward leaves alive for backward, by the innermost line outside torch that made them. */
export interface LineBytes {
  readonly path: string;
  readonly line: number;
  readonly bytes: number;
}

/** Modules of one kind in places of one kind: `module` is a pattern, `layers.*.mlp`. */
export interface ModuleBytes {
  readonly module: string;
  readonly className: string;
  readonly count: number;
  readonly parameterBytes: number;
  readonly savedBytes: number;
}

/** Modules whose forward ran again during backward. */
export interface Recomputed {
  readonly module: string;
  readonly className: string;
  readonly count: number;
}

/** Modules whose forward did not run again and whose activations stayed alive until backward. */
export interface Kept {
  readonly module: string;
  readonly className: string;
  readonly count: number;
  readonly savedBytes: number;
}

/** A phase begins at this point of the timeline. */
export interface Mark {
  readonly point: number;
  readonly phase: string;
}

/** Bytes alive, by category, at points along the two steps; few enough to draw, the peak always among them. */
export interface Timeline {
  readonly categories: readonly string[];
  readonly points: readonly (readonly number[])[];
  readonly events: readonly number[];
  readonly modules: readonly string[];
  readonly marks: readonly Mark[];
  readonly peak: number;
}

export interface PhasePeak {
  readonly phase: string;
  readonly allocatedBytes: number;
}

/** What one of several ranks took that were measured together. */
export interface RankFigures {
  readonly rank: number;
  readonly allocatedBytes: number;
  readonly reservedBytes: number | null;
  readonly processBytes: Range | null;
  readonly stepSeconds: number;
}

export interface VariantResult {
  readonly name: string;
  readonly kind: "estimated" | "measured";
  readonly allocatedBytes: number;
  readonly reservedBytes: number | null;
  readonly processBytes: Range | null;
  readonly peakPhase: string;
  readonly phases: readonly PhasePeak[];
  readonly savedActivationBytes: number;
  readonly byCategory: Readonly<Record<string, number>>;
  readonly byLine: readonly LineBytes[];
  readonly byModule: readonly ModuleBytes[];
  readonly recomputeFlopsRatio: Range;
  readonly stepSeconds: number | null;
  readonly checkpointed: readonly Recomputed[];
  readonly notCheckpointed: readonly Kept[];
  readonly active: boolean;
  readonly inactiveBecause: string | null;
  readonly assumptions: readonly string[];
  readonly verified: boolean;
  readonly timeline: Timeline;
  readonly stepSecondsRange?: Range | null;
  readonly worldSize?: number | null;
  readonly batch?: number | null;
  readonly seq?: number | null;
  readonly gradAccum?: number;
  readonly ranks?: readonly RankFigures[];
}

/** The first event: who answers. */
export interface Environment {
  readonly python: string;
  readonly versions: Readonly<Record<string, string>>;
}

export interface Progress {
  readonly stage: "import" | "build" | "forward" | "backward" | "optimizer" | "replay" | "measure" | "self-check";
  readonly variant: string | null;
  readonly done: number;
  readonly of: number;
}

export interface Failure {
  readonly variant: string | null;
  readonly stage: string;
  readonly message: string;
  readonly location?: Location | null;
  readonly missing?: Missing | null;
  readonly details?: string;
}

/** Why there is an estimate only, though a measurement was wanted where one is possible, and what to do. */
export interface Unmeasured {
  readonly variant: string;
  readonly why: string;
  readonly how: string;
}

/** A text for the log: what the user's code printed, or what the worker noticed. */
export interface Log {
  readonly text: string;
}

/** The last event of a request. */
export interface Done {
  readonly seconds: number;
}
