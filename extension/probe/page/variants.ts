/** The ways to checkpoint beside each other: bars against the card's memory, and the figures. */

import { barX, type Markish, plot, ruleX, stackX, text } from "@observablehq/plot";
import type { ProbeAnswer, ProbeCard } from "../../protocol";
import { type Child, element, link } from "../../report/page/elements";
import { CHECKPOINTING, placeOfWritten } from "../knobs";
import type { Range, VariantResult } from "../messages";
import { inBytes, inRange } from "../numbers";
import type { Figures, FromPage } from "../page_messages";
import { applyButton, outcome } from "./applying";
import { fillOf, nameOf, swatch } from "./categories";
import { chosenCard, needOf, partsOf, perRank, SIGNS, type Verdict, verdictOn } from "./need";
import { withoutStyle } from "./plain_plot";
import { binaryTicks } from "./ticks";

const ROW = 34;
const MARGIN = { left: 112, right: 8 };
/** About the width of a bold one. */
const LETTER = 7.6;
/** A card with more than this times what is needed would make the bars too short to read. */
const FARTHEST = 4;

/** What pressing a row does. */
interface Acts {
  readonly width: number;
  readonly select: (name: string) => void;
  readonly send: (message: FromPage) => void;
}

export function comparison({ answer, planned }: Figures, selected: VariantResult, acts: Acts): Child[] {
  return [
    bars(answer, acts.width),
    legend(answer),
    table(answer, selected, acts.select),
    inCode(answer, acts.send),
    outcome(planned, ["variants"], acts.send),
    ...notes(answer),
    pending(),
  ];
}

function bars(answer: ProbeAnswer, width: number): Element {
  const variants = inOrder(answer);
  const card = chosenCard(answer);
  const most = Math.max(...variants.map((variant) => needOf(variant).high), 1);
  const highest = card && card.usableBytes < most * FARTHEST ? Math.max(most, card.usableBytes) : most;
  const longest = Math.max(...variants.map((variant) => label(answer, variant).length)) * LETTER + 12;
  const room = highest / (1 - longest / (width - MARGIN.left - MARGIN.right));
  const needs = `What each way to checkpoint needs${variants[0] ? perRank(variants[0]) : ""}`;
  return withoutStyle(
    plot({
      className: "chart",
      width,
      height: ROW * variants.length + 62,
      marginLeft: MARGIN.left,
      marginRight: MARGIN.right,
      marginTop: 26,
      marginBottom: 34,
      ariaLabel: `${needs}; the table below has the same figures.`,
      x: { domain: [0, room], ticks: binaryTicks(highest, Math.min(5, width / 120)), tickFormat: inBytes, label: null },
      y: { domain: variants.map(({ name }) => name), label: null, padding: 0.28, tickSize: 0 },
      marks: [...stacked(answer, variants), ...limitOf(card, highest)],
    }),
  );
}

/** A bar in parts for each, with what it comes to at its end. */
function stacked(answer: ProbeAnswer, variants: readonly VariantResult[]): Markish[] {
  const rows = variants.flatMap((variant) =>
    partsOf(variant).map(([part, bytes]) => ({ name: variant.name, part, bytes })),
  );
  const fill = ({ part }: { part: string }) => fillOf(part);
  return [
    barX(rows, stackX({ x: "bytes", y: "name", z: "part", order: null, fill, className: "area" })),
    text(variants, {
      x: (variant: VariantResult) => needOf(variant).high,
      y: "name",
      textAnchor: "start",
      dx: 6,
      fontWeight: "bold",
      text: (variant: VariantResult) => label(answer, variant),
    }),
  ];
}

/** The card's memory as a line, or in words where the line would be far to the right. */
function limitOf(card: ProbeCard | undefined, highest: number): Markish[] {
  if (!card) return [];
  const { name, usableBytes } = card;
  const words = `${name}: ${inBytes(usableBytes)} usable`;
  if (usableBytes > highest)
    return [text([`${words}, beyond the right edge →`], { frameAnchor: "top-right", dy: -18 })];
  const textAnchor = usableBytes > highest / 2 ? "end" : "start";
  return [
    ruleX([usableBytes], { className: "limit", insetTop: -6 }),
    text([usableBytes], { x: (bytes: number) => bytes, text: () => words, frameAnchor: "top", dy: -18, textAnchor }),
  ];
}

function label(answer: ProbeAnswer, variant: VariantResult): string {
  const verdict = verdictOn(answer, variant);
  return `${inRange(needOf(variant))}${verdict ? ` ${SIGNS[verdict.kind]}` : ""}`;
}

/** Always the same order, whichever was asked for first. */
function inOrder({ variants }: ProbeAnswer): VariantResult[] {
  const names = [...CHECKPOINTING.values()];
  const place = ({ name }: VariantResult) => (names.includes(name) ? names.indexOf(name) : names.length);
  return [...variants].sort((a, b) => place(a) - place(b));
}

function legend({ variants }: ProbeAnswer): HTMLElement {
  const parts = [...new Set(variants.flatMap((variant) => partsOf(variant).map(([part]) => part)))];
  return element("ul", { class: "legend" }, ...parts.map((part) => element("li", {}, swatch(part), nameOf(part))));
}

function table(answer: ProbeAnswer, selected: VariantResult, select: Acts["select"]): HTMLElement {
  const needs = `Needs${perRank(selected)}`;
  const head = ["Checkpointing", needs, "Allocated", "Saved", "More compute"];
  const rows = inOrder(answer).map((variant) => {
    const { name, allocatedBytes, savedActivationBytes, recomputeFlopsRatio } = variant;
    const verdict = verdictOn(answer, variant);
    const isShown = variant === selected;
    const shows = isShown
      ? element("span", { "aria-current": "true" }, "▶ ", name)
      : link(name, () => select(name), { title: `Show ${name} above` });
    const cells = [inBytes(allocatedBytes), inBytes(savedActivationBytes), inPercent(recomputeFlopsRatio)];
    return element(
      "tr",
      { class: isShown ? "selected" : "" },
      element("th", { scope: "row" }, shows),
      element("td", {}, inRange(needOf(variant)), verdict && sign(verdict)),
      ...cells.map((cell) => element("td", {}, cell)),
    );
  });
  return element(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": "Ways to checkpoint" },
    element(
      "table",
      { id: "variants" },
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows),
    ),
  );
}

/** Buttons that write a way into the code; none for what it has already. */
function inCode(answer: ProbeAnswer, send: Acts["send"]): Child {
  const { variants, plans } = answer;
  const plan = (at: number) => JSON.stringify(plans[at] ?? []);
  const written = placeOfWritten(variants);
  const others = inOrder(answer).filter(({ name, active }) => {
    const at = variants.findIndex((one) => one.name === name);
    if (at === written) return false;
    if (name === CHECKPOINTING.get("none")) return variants[written]?.active === true;
    return active && (plan(at) !== plan(written) || name === CHECKPOINTING.get("selective"));
  });
  if (written < 0 || others.length === 0) return null;
  const buttons = others.map((variant) => {
    const place = { from: "variants", index: variants.indexOf(variant) } as const;
    return applyButton(place, variant.name, variant.name, send);
  });
  return element("p", { id: "apply", class: "buttons" }, element("span", {}, "Apply to the code:"), ...buttons);
}

function sign({ kind, words, card }: Verdict): HTMLElement {
  return element("span", { role: "img", "aria-label": words, title: `${words} on ${card.name}` }, ` ${SIGNS[kind]}`);
}

/** There while the others are being estimated. */
function pending(): HTMLElement {
  return element("p", { class: "note pending" }, "The other ways are being estimated …");
}

/** Ways that could not be tried on this model. */
function notes({ failures, variants }: ProbeAnswer): Child[] {
  const known = new Set(variants.map(({ name }) => name));
  return failures
    .filter(({ variant }) => variant !== null && !known.has(variant))
    .map(({ variant, message }) => element("p", { class: "note" }, `${variant}: ${message}`));
}

export function inPercent({ low, high }: Range): string {
  const [from, to] = [low, high].map((ratio) => Math.round((ratio - 1) * 100));
  if (to === 0) return "none";
  return from === to ? `+${to} %` : `+${from}–${to} %`;
}
