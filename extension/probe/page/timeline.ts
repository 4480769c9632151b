/** Memory along the two steps, stacked by what it is used for, with a cursor that says what is alive where. */

import { element } from "../../report/page/elements";
import type { Timeline } from "../messages";
import { inBytes } from "../numbers";
import { meaningOf, nameOf, swatch } from "./categories";
import { inWords, type Phase, phasesOf } from "./phases";
import { draw, MARGIN } from "./timeline_chart";

/** `usable`: the memory of the chosen card, drawn where it is near. */
export function timelineOf(timeline: Timeline, usable: number | null, width: number): HTMLElement {
  const totals = timeline.points.map((point) => point.reduce((sum, bytes) => sum + bytes, 0));
  const phases = phasesOf(timeline);
  const { chart, move } = draw(timeline, totals, phases, usable, width);
  const used = timeline.categories.map((_, index) => index).filter((index) => timeline.points.some((p) => p[index]));
  const values = new Map(used.map((index) => [index, element("span", { class: "value" })]));
  const reading = element("p", { id: "reading" });
  const slider = sliderTo(timeline.points.length - 1);
  const show = (point: number) => {
    const phase = phases.filter(({ from }) => from <= point).at(-1);
    const where = [phase && inWords(phase), shortPlace(timeline.modules[point] ?? ""), inBytes(totals[point] ?? 0)]
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
  const table = phases.length > 0 && tableOf(timeline, totals, phases, used);
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

function sliderTo(last: number): HTMLInputElement {
  const range = { type: "range", min: "0", max: String(last), step: "1" };
  return element("input", { ...range, id: "cursor", "aria-label": "Point in time" });
}

/** Of a line of code, as recordings name where memory was made, the file's name and its folder. A module stays. */
export function shortPlace(place: string): string {
  return /[\\/]/.test(place) ? place.split(/[\\/]/).slice(-2).join("/") : place;
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

function tableOf(timeline: Timeline, totals: readonly number[], phases: readonly Phase[], used: readonly number[]) {
  const head = ["Phase", "Highest", "Module", ...used.map((index) => nameOf(timeline.categories[index] ?? ""))];
  const rows = phases.map((phase) => {
    let highest = phase.from;
    for (let point = phase.from; point <= phase.to; point++)
      if ((totals[point] ?? 0) > (totals[highest] ?? 0)) highest = point;
    const cells = used.map((index) => inBytes(timeline.points[highest]?.[index] ?? 0));
    return [
      inWords(phase),
      inBytes(totals[highest] ?? 0),
      shortPlace(timeline.modules[highest] ?? "") || "–",
      ...cells,
    ];
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
