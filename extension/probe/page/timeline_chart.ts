/** The drawing of the timeline: areas by what memory is used for, phases, the peak, and a cursor that can be moved. */

import { areaY, dot, gridY, type Markish, plot, ruleX, ruleY, stackY, text } from "@observablehq/plot";
import type { Timeline } from "../messages";
import { inBytes } from "../numbers";
import { fillOf } from "./categories";
import type { Phase } from "./phases";
import { withoutStyle } from "./plain_plot";
import { drawn } from "./svg";
import { binaryTicks } from "./ticks";

const HEIGHT = 270;
/** About the width of one. */
const LETTER = 6.5;
export const MARGIN = { left: 62, right: 12, top: 36, bottom: 22 };
/** A card with more than this times the peak is not drawn: the areas would be too low to read. */
const HIGHEST = 1.6;

export interface Drawing {
  readonly chart: Element;
  move(point: number): void;
}

export function draw(
  timeline: Timeline,
  totals: readonly number[],
  phases: readonly Phase[],
  usable: number | null,
  width: number,
): Drawing {
  const { events, points, peak } = timeline;
  const highest = Math.max(...totals, 1);
  const limit = usable !== null && usable < highest * HIGHEST ? [usable] : [];
  const room = Math.max(highest, ...limit) * 1.08;
  const x = (point: number) => events[point] ?? 0;
  const svg = plot({
    className: "chart",
    width,
    height: HEIGHT,
    marginLeft: MARGIN.left,
    marginRight: MARGIN.right,
    marginTop: MARGIN.top,
    marginBottom: MARGIN.bottom,
    ariaLabel: `Memory along the time; the peak is ${inBytes(highest)}. The slider below reads out each point.`,
    x: { axis: null, domain: [x(0), x(points.length - 1)] },
    y: { domain: [0, room], ticks: binaryTicks(room, 5), tickFormat: inBytes, label: null },
    marks: [
      gridY(binaryTicks(room, 5), { stroke: "currentColor", strokeOpacity: 0.15 }),
      areas(timeline),
      ...phaseMarks(phases, x, (width - MARGIN.left - MARGIN.right) / (x(points.length - 1) - x(0))),
      ruleY(limit, { className: "limit" }),
      dot([peak], { x, y: (point: number) => totals[point] ?? 0, r: 4, className: "peak" }),
    ],
  });
  const cursor = drawn("line", { class: "cursor", y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom });
  const chart = withoutStyle(svg);
  chart.append(cursor);
  const move = (point: number) => {
    const at = String(svg.scale("x")?.apply(x(point)) ?? 0);
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
  };
  return { chart, move };
}

function areas({ events, points, categories }: Timeline): Markish {
  const used = categories.map((_, index) => index).filter((index) => points.some((point) => point[index]));
  const rows = points.flatMap((point, at) =>
    used.map((index) => ({ x: events[at], bytes: point[index] ?? 0, category: categories[index] ?? "" })),
  );
  return areaY(
    rows,
    stackY({
      x: "x",
      y: "bytes",
      z: "category",
      order: [...categories],
      fill: ({ category }) => fillOf(category),
      curve: "step-after",
      className: "area",
    }),
  );
}

/** Lines where phases begin, with their names where there is room; the second step is set off. */
function phaseMarks(phases: readonly Phase[], x: (point: number) => number, scale: number): Markish[] {
  const from = (phase: Phase) => x(phase.from);
  const steps = [1, 2].flatMap((step) => phases.filter((phase) => phase.step === step).slice(0, 1));
  const named = phases.filter((phase) => (x(phase.to) - from(phase)) * scale > 12 + phase.name.length * LETTER);
  const middle = (phase: Phase) => (from(phase) + x(phase.to)) / 2;
  const above = { frameAnchor: "top", textAnchor: "start", dx: 4, dy: -24, fontWeight: "bold" } as const;
  return [
    ruleX(phases.slice(1), { x: from, strokeOpacity: 0.45, strokeDasharray: "2 3" }),
    text(named, { x: middle, text: "name", frameAnchor: "top", dy: -8 }),
    ruleX(steps.slice(1), { x: from, strokeWidth: 1.5, insetTop: -MARGIN.top }),
    text(steps, { x: from, text: ({ step }: Phase) => `Step ${step}`, ...above }),
  ];
}
