/** What memory is used for: names, and fills that differ by pattern and not by colour alone. */

import { drawn } from "./svg";

interface Category {
  readonly name: string;
  readonly means: string;
  /** A path in a tile of 8 by 8, drawn over the colour. */
  readonly pattern: string;
}

const CATEGORIES: Readonly<Record<string, Category>> = {
  parameters: { name: "Parameters", means: "the weights", pattern: "" },
  gradients: { name: "Gradients", means: "of the parameters", pattern: "M-2 2 L2 -2 M0 8 L8 0 M6 10 L10 6" },
  optimizer: { name: "Optimizer", means: "its state and its temporaries", pattern: "M0 2 H8 M0 6 H8" },
  activations: { name: "Activations", means: "kept by forward for backward", pattern: "M2 2 h1.6 M6 6 h1.6" },
  recomputed: { name: "Recomputed", means: "activations made again in backward", pattern: "M0 0 L8 8 M8 0 L0 8" },
  temporaries: {
    name: "Temporaries",
    means: "alive only within a phase",
    pattern: "M-2 6 L2 10 M0 0 L8 8 M6 -2 L10 2",
  },
  inputs: { name: "Inputs", means: "the batch", pattern: "M2 0 V8 M6 0 V8" },
  buffers: { name: "Buffers", means: "of the modules", pattern: "M0 4 H8 M4 0 V8" },
  communication: {
    name: "Communication",
    means: "parameters gathered from other ranks, and what is sent",
    pattern: "M0 4 H3 M5 4 H8",
  },
  workspaces: { name: "Workspaces", means: "of cuBLAS and cuDNN", pattern: "M0 4 L2 2 L4 4 L6 6 L8 4" },
  rounding: { name: "Rounding", means: "ends of blocks that the allocator does not split", pattern: "M4 0 V8" },
  unused: { name: "Held, unused", means: "taken from the driver, in no tensor", pattern: "M4 3.2 v1.6" },
  context: { name: "GPU context", means: "what CUDA itself takes", pattern: "M0 0 h4 v4 h-4 z M4 4 h4 v4 h-4 z" },
  "before recording": { name: "From before", means: "alive before the recording began", pattern: "" },
  "made in forward": { name: "Made in forward", means: "by its Python stack", pattern: "M2 2 h1.6 M6 6 h1.6" },
  "made in backward": {
    name: "Made in backward",
    means: "by its Python stack",
    pattern: "M-2 2 L2 -2 M0 8 L8 0 M6 10 L10 6",
  },
  "made in the optimizer": { name: "Made in the optimizer", means: "by its Python stack", pattern: "M0 2 H8 M0 6 H8" },
  "made elsewhere": { name: "Made elsewhere", means: "in other Python code", pattern: "M0 0 L8 8 M8 0 L0 8" },
  "made without a Python stack": {
    name: "Without a Python stack",
    means: "made by a thread of torch's own, or recorded without stacks",
    pattern: "M2 0 V8 M6 0 V8",
  },
  uncertain: { name: "Uncertain", means: "depends on the GPU", pattern: "M-2 2 L2 -2 M0 8 L8 0 M6 10 L10 6" },
};

export function nameOf(category: string): string {
  return CATEGORIES[category]?.name ?? category;
}

export function meaningOf(category: string): string {
  return CATEGORIES[category]?.means ?? "";
}

function idOf(category: string): string {
  return category.replaceAll(" ", "-");
}

export function fillOf(category: string): string {
  return category in CATEGORIES ? `url(#fill-${idOf(category)})` : "url(#fill-workspaces)";
}

/** The fills, once for all drawings of the page. */
export function patterns(): SVGElement {
  const made = Object.entries(CATEGORIES).map(([category, { pattern }]) =>
    drawn(
      "pattern",
      {
        id: `fill-${idOf(category)}`,
        class: `fill ${idOf(category)}`,
        width: 8,
        height: 8,
        patternUnits: "userSpaceOnUse",
      },
      drawn("rect", { class: "tone", width: 8, height: 8 }),
      drawn("path", { class: "ink", d: pattern }),
    ),
  );
  return drawn("svg", { class: "patterns", width: 0, height: 0, "aria-hidden": "true" }, drawn("defs", {}, ...made));
}

export function swatch(category: string): SVGElement {
  return drawn(
    "svg",
    { class: "swatch", width: 16, height: 16, "aria-hidden": "true" },
    drawn("rect", { width: 16, height: 16, fill: fillOf(category) }),
  );
}
