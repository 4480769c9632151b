/** Memory along the two steps, stacked by what it is used for, with a cursor that says what is alive where. */

import { areaY, dot, gridY, plot, ruleX, ruleY, stackY, text } from "@observablehq/plot";
import { element } from "../../report/page/elements";
import type { Timeline } from "../messages";
import { inBytes } from "../numbers";
import { fillOf, meaningOf, nameOf, swatch } from "./categories";
import { drawn } from "./svg";
import { binaryTicks } from "./ticks";

const HEIGHT = 270;
/** About the width of one. */
const LETTER = 6.5;
const MARGIN = { left: 62, right: 12, top: 36, bottom: 22 };

interface Phase {
  readonly name: string;
  readonly step: number;
  readonly from: number;
  readonly to: number;
}

/** `usable`: the memory of the chosen card, drawn where it is near. */
export function timelineOf(timeline: Timeline, usable: number | null, width: number): HTMLElement {
  const totals = timeline.points.map((point) => point.reduce((sum, bytes) => sum + bytes, 0));
  const phases = phasesOf(timeline);
  const { chart, move } = draw(timeline, totals, phases, usable, width);
  const used = timeline.categories.map((_, index) => index).filter((index) => timeline.points.some((p) => p[index]));
  const values = new Map(used.map((index) => [index, element("span", { class: "value" })]));
  const reading = element("p", { id: "reading" });
  const slider = element("input", {
    type: "range",
    min: "0",
    max: String(timeline.points.length - 1),
    step: "1",
    id: "cursor",
    "aria-label": "Point along the two steps",
  });
  const show = (point: number) => {
    const phase = phases.filter(({ from }) => from <= point).at(-1);
    const where = [phase && inWords(phase), timeline.modules[point], inBytes(totals[point] ?? 0)]
      .filter(Boolean)
      .join(" · ");
    reading.textContent = point === timeline.peak ? `Peak: ${where}` : where;
    for (const [index, value] of values) value.textContent = inBytes(timeline.points[point]?.[index] ?? 0);
    const parts = [...values].map(
      ([index, value]) => `${nameOf(timeline.categories[index] ?? "")} ${value.textContent}`,
    );
    slider.value = String(point);
    slider.setAttribute("aria-valuetext", `${where}: ${parts.join(", ")}`);
    move(point);
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  follow(chart, timeline, show);
  show(timeline.peak);
  const legend = [...values].reverse().map(([index, value]) => entry(timeline.categories[index] ?? "", value));
  const table = tableOf(timeline, totals, phases, used);
  return element(
    "div",
    { class: "timeline" },
    chart,
    slider,
    reading,
    element("ul", { class: "legend" }, ...legend),
    table,
  );
}

function draw(
  timeline: Timeline,
  totals: readonly number[],
  phases: readonly Phase[],
  usable: number | null,
  width: number,
) {
  const { events, points, categories, peak } = timeline;
  const highest = Math.max(...totals, 1);
  const top = usable !== null && usable < highest * 1.6 ? Math.max(highest, usable) : highest;
  const room = top * 1.08;
  const rows = points.flatMap((point, at) =>
    categories.map((category, index) => ({ x: events[at], bytes: point[index] ?? 0, category })),
  );
  const visible = rows.filter(({ category }) => points.some((point) => point[categories.indexOf(category)]));
  const x = (point: number) => events[point] ?? 0;
  const steps = [1, 2].flatMap((step) => phases.filter((phase) => phase.step === step).slice(0, 1));
  const named = phases.filter(
    ({ name, from, to }) => ((x(to) - x(from)) / (x(points.length - 1) - x(0))) * width > 12 + name.length * LETTER,
  );
  const svg = plot({
    className: "chart",
    width,
    height: HEIGHT,
    marginLeft: MARGIN.left,
    marginRight: MARGIN.right,
    marginTop: MARGIN.top,
    marginBottom: MARGIN.bottom,
    ariaLabel: `Memory along two training steps; the peak is ${inBytes(highest)}. The slider below reads out each point.`,
    x: { axis: null, domain: [x(0), x(points.length - 1)] },
    y: { domain: [0, room], ticks: binaryTicks(room, 5), tickFormat: inBytes, label: null },
    marks: [
      gridY(binaryTicks(room, 5), { stroke: "currentColor", strokeOpacity: 0.15 }),
      areaY(
        visible,
        stackY({
          x: "x",
          y: "bytes",
          z: "category",
          order: [...categories],
          fill: ({ category }) => fillOf(category),
          curve: "step-after",
          className: "area",
        }),
      ),
      ruleX(phases.slice(1), { x: ({ from }: Phase) => x(from), strokeOpacity: 0.45, strokeDasharray: "2 3" }),
      text(named, { x: ({ from, to }: Phase) => (x(from) + x(to)) / 2, text: "name", frameAnchor: "top", dy: -8 }),
      ruleX(steps.slice(1), { x: ({ from }: Phase) => x(from), strokeWidth: 1.5, insetTop: -MARGIN.top }),
      text(steps, {
        x: ({ from }: Phase) => x(from),
        text: ({ step }: Phase) => `Step ${step}`,
        frameAnchor: "top",
        textAnchor: "start",
        dx: 4,
        dy: -24,
        fontWeight: "bold",
      }),
      ...(usable !== null && usable <= top ? [ruleY([usable], { className: "limit" })] : []),
      dot([peak], { x, y: (point: number) => totals[point] ?? 0, r: 4, className: "peak" }),
    ],
  });
  const chart = withoutStyle(svg);
  const cursor = drawn("line", { class: "cursor", y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom });
  chart.append(cursor);
  const place = (point: number) => String(svg.scale("x")?.apply(x(point)) ?? 0);
  const move = (point: number) => {
    cursor.setAttribute("x1", place(point));
    cursor.setAttribute("x2", place(point));
  };
  return { chart, move };
}

/** Plot brings a style element, which the page's policy refuses; the same rules are in the page's own style. */
export function withoutStyle(chart: SVGSVGElement | HTMLElement): SVGSVGElement | HTMLElement {
  chart.querySelector("style")?.remove();
  return chart;
}

function follow(chart: Element, { events }: Timeline, show: (point: number) => void): void {
  chart.addEventListener("pointermove", (event) => {
    const { left, width } = chart.getBoundingClientRect();
    const inner = width - MARGIN.left - MARGIN.right;
    const share = ((event as PointerEvent).clientX - left - MARGIN.left) / inner;
    const first = events[0] ?? 0;
    const wanted = first + share * ((events.at(-1) ?? 0) - first);
    const after = events.findIndex((at) => at > wanted);
    show(Math.max(0, after < 0 ? events.length - 1 : after - 1));
  });
}

function entry(category: string, value: HTMLElement): HTMLElement {
  return element("li", { title: meaningOf(category) }, swatch(category), element("span", {}, nameOf(category)), value);
}

/** From the start to the first mark the model is loaded; the second time a phase comes up it is the second step. */
function phasesOf({ marks, points }: Timeline): Phase[] {
  const starts = marks[0]?.point === 0 ? marks : [{ point: 0, phase: "load" }, ...marks];
  let step = 1;
  let seen = new Set<string>();
  return starts.map(({ point, phase }, index) => {
    if (seen.has(phase)) {
      step += 1;
      seen = new Set();
    }
    seen.add(phase);
    return { name: phase, step, from: point, to: starts[index + 1]?.point ?? points.length - 1 };
  });
}

function inWords({ name, step }: Phase): string {
  return `Step ${step}, ${name}`;
}

function tableOf(timeline: Timeline, totals: readonly number[], phases: readonly Phase[], used: readonly number[]) {
  const head = ["Phase", "Highest", "Module", ...used.map((index) => nameOf(timeline.categories[index] ?? ""))];
  const rows = phases.map((phase) => {
    let highest = phase.from;
    for (let point = phase.from; point <= phase.to; point++)
      if ((totals[point] ?? 0) > (totals[highest] ?? 0)) highest = point;
    const cells = used.map((index) => inBytes(timeline.points[highest]?.[index] ?? 0));
    return [inWords(phase), inBytes(totals[highest] ?? 0), timeline.modules[highest] || "–", ...cells];
  });
  return element(
    "details",
    {},
    element("summary", {}, "The same as a table"),
    element(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": "Highest use of each phase" },
      element(
        "table",
        {},
        element("caption", {}, "Where each phase uses most, and what for"),
        element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
        element(
          "tbody",
          {},
          ...rows.map(([name = "", ...cells]) =>
            element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((cell) => element("td", {}, cell))),
          ),
        ),
      ),
    ),
  );
}
