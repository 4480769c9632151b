/** What a variant needs, and how that compares with the cards. */

import type { ProbeAnswer, ProbeCard } from "../../protocol";
import type { Range, VariantResult } from "../messages";

/** The widest figure there is: the process's, else what the allocator reserves, else what it hands out. */
export function needOf({ processBytes, reservedBytes, allocatedBytes }: VariantResult): Range {
  if (processBytes) return processBytes;
  const bytes = reservedBytes ?? allocatedBytes;
  return { low: bytes, high: bytes };
}

/** Whose figures they are, where several ranks train together; else an empty text. */
export function perRank({ worldSize }: { readonly worldSize?: number | null }): string {
  return typeof worldSize === "number" ? " per rank" : "";
}

/** Who needs what is needed, as a sentence begins: one of several ranks, or nobody in particular. */
export function eachRank({ worldSize }: VariantResult): string {
  return typeof worldSize === "number" ? `Each of ${worldSize} ranks` : "";
}

export interface Verdict {
  readonly card: ProbeCard;
  readonly words: string;
  readonly kind: "fits" | "close" | "exceeds";
}

/** The card that is chosen, if it is known. */
export function chosenCard({ cards, gpu }: ProbeAnswer): ProbeCard | undefined {
  return cards.find(({ name }) => name === gpu);
}

/** What the server says of `variant` on the card that is chosen. */
export function verdictOn(answer: ProbeAnswer, variant: VariantResult): Verdict | undefined {
  const card = chosenCard(answer);
  return card && verdictFor(answer, variant, card);
}

/** The card with the least memory that it fits on for sure. */
export function smallestThatFits(answer: ProbeAnswer, variant: VariantResult): ProbeCard | undefined {
  return answer.cards
    .filter((card) => verdictFor(answer, variant, card)?.kind === "fits")
    .sort((a, b) => a.usableBytes - b.usableBytes)[0];
}

export function verdictFor(answer: ProbeAnswer, variant: VariantResult, card: ProbeCard): Verdict | undefined {
  const words = card.verdicts[answer.variants.indexOf(variant)];
  if (words === undefined) return undefined;
  const kind = words === "fits" ? "fits" : /not/.test(words) ? "exceeds" : "close";
  return { card, words, kind };
}

export const SIGNS = { fits: "✓", close: "≈", exceeds: "✗" } as const;

/** What is drawn of a variant's bar, from left to right: bytes by category, then what comes on top of tensors. */
export function partsOf(variant: VariantResult): [string, number][] {
  const { byCategory, reservedBytes, processBytes } = variant;
  const parts = Object.entries(byCategory);
  const held = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
  if (reservedBytes !== null) parts.push(["unused", reservedBytes - held]);
  if (reservedBytes !== null && processBytes) {
    parts.push(["context", processBytes.low - reservedBytes], ["uncertain", processBytes.high - processBytes.low]);
  }
  return parts.filter(([, bytes]) => bytes > 0);
}
