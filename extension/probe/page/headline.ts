/** The first thing to read: what is needed, whether it fits, and how far to trust that. */

import type { ProbeAnswer } from "../../protocol";
import { type Child, element } from "../../report/page/elements";
import type { VariantResult } from "../messages";
import { inBytes, inRange } from "../numbers";
import { nameOf } from "./categories";
import { eachRank, needOf, perRank, SIGNS, smallestThatFits, verdictOn } from "./need";

/** `before`: what was needed before anything was turned. */
export function headline(
  answer: ProbeAnswer,
  variant: VariantResult,
  gpu: string | null,
  before: VariantResult | undefined,
): HTMLElement {
  const verdict = verdictOn(answer, variant);
  const need = inRange(needOf(variant));
  const who = eachRank(variant);
  const needs = who ? `${who} needs` : "Needs";
  const title = verdict
    ? [
        element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[verdict.kind]),
        ` ${who ? `${who}: ${verdict.words}` : sentenceOf(verdict.words)} on ${verdict.card.name}`,
      ]
    : [`${needs} ${need}`];
  const room = verdict
    ? `${needs} ${need} of the ${inBytes(verdict.card.usableBytes)} usable on ${verdict.card.name}.`
    : `${roomElsewhere(answer, variant)}${gpu !== null && answer.gpu === null ? ` A card named ${gpu} is not known.` : ""}`;
  return element(
    "header",
    { id: "headline", class: verdict?.kind },
    element("h1", {}, ...title),
    element("p", { class: "room" }, room, ` The peak is in ${variant.peakPhase}; ${mostOf(variant)}.`),
    before && difference(variant, before),
    element("p", { class: "badges" }, badge(variant), sizes(variant), trust(answer, variant)),
  );
}

/** Of what tensors hold, which no choice of card changes. */
function difference(variant: VariantResult, before: VariantResult): Child {
  const more = variant.allocatedBytes - before.allocatedBytes;
  if (more === 0 || before.allocatedBytes === 0) return null;
  const percent = Math.round((Math.abs(more) / before.allocatedBytes) * 100);
  const words = `${inBytes(Math.abs(more))} (${percent} %) ${more > 0 ? "more" : "less"}`;
  return element(
    "p",
    { class: "difference" },
    `Tensors hold ${words}${perRank(variant)} than as first probed, ${inBytes(before.allocatedBytes)}${perRank(before)}.`,
  );
}

function roomElsewhere(answer: ProbeAnswer, variant: VariantResult): string {
  if (answer.cards.length === 0) return "";
  const card = smallestThatFits(answer, variant);
  if (!card) return "Fits on none of the cards that Remat knows.";
  return `The smallest card that it fits on is ${card.name}, with ${inBytes(card.usableBytes)} usable.`;
}

function mostOf({ byCategory, allocatedBytes }: VariantResult): string {
  const [most] = Object.entries(byCategory).sort(([, a], [, b]) => b - a);
  if (!most || allocatedBytes === 0) return "nothing is alive there";
  const [category, bytes] = most;
  const share = Math.round((bytes / allocatedBytes) * 100);
  return `${inBytes(bytes)} of it (${share} % of what tensors hold) ${VERBS[category] ?? `are ${nameOf(category).toLowerCase()}`}`;
}

const VERBS: Readonly<Record<string, string>> = {
  optimizer: "belong to the optimizer",
  recomputed: "are recomputed activations",
};

/** Estimated and measured never look the same. */
export function badge({ kind }: VariantResult): HTMLElement {
  return kind === "measured"
    ? element("strong", { class: "badge measured" }, "Measured on this machine")
    : element("span", { class: "badge estimated" }, "Estimated, nothing was measured");
}

/** Those that were used, whoever chose them. */
function sizes(variant: VariantResult): Child {
  const { batch, seq } = variant;
  const parts = [typeof batch === "number" && `Batch ${batch}`, typeof seq === "number" && `sequence ${seq}`];
  const words = parts.filter(Boolean).join(", ") + perRank(variant);
  return words && element("span", { class: "badge", id: "sizes" }, words);
}

function trust({ environment }: ProbeAnswer, { kind, verified }: VariantResult): Child {
  if (kind === "measured") return null;
  const torch = environment?.versions.torch ? `torch ${environment.versions.torch}` : "this torch";
  return verified
    ? element("span", { class: "badge" }, `Verified for ${torch}`)
    : element("span", { class: "badge warning" }, `⚠ Not verified for ${torch}: its self-check failed or was not run`);
}

export function tiers(variant: VariantResult): HTMLElement {
  const { allocatedBytes, reservedBytes, processBytes, kind } = variant;
  const rows: [string, string, string][] = [
    ["Allocated", inBytes(allocatedBytes), `what tensors hold at the peak${perRank(variant)}`],
    [
      "Reserved",
      reservedBytes === null ? "none" : inBytes(reservedBytes),
      reservedBytes === null
        ? "the CPU has no caching allocator"
        : `what PyTorch takes from the driver${perRank(variant)}`,
    ],
    [
      "Process",
      processBytes ? inRange(processBytes) : "not known",
      processBytes
        ? `what nvidia-smi shows${perRank(variant)}`
        : reservedBytes === null
          ? "the process has more than its tensors"
          : "reserved and the context of the GPU, which is not known",
    ],
  ];
  const cells = rows.map(([name, value, means]) =>
    element(
      "div",
      {},
      element("dt", {}, name),
      element("dd", { class: "figure" }, value),
      element("dd", { class: "note" }, means),
    ),
  );
  return element("dl", { id: "tiers", class: kind, "aria-label": `Highest use${perRank(variant)}, ${kind}` }, ...cells);
}

function sentenceOf(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
