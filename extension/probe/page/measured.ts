/** The real step on this machine, beside what was estimated for it. */

import { button, type Child, element } from "../../report/page/elements";
import { answerTo } from "../../report/page/sections";
import { nameOfWay, sameStep } from "../knobs";
import { inBytes, inRange } from "../numbers";
import type { Figures, FromPage, Measurement } from "../page_messages";

export function measurement({ measurement: found, knobs }: Figures, send: (message: FromPage) => void): Child[] {
  const fits = found && sameStep(found.knobs, knobs) && found.knobs.checkpointing === knobs.checkpointing;
  const measure = button(fits ? "Measure again" : "Measure", () => send({ kind: "measure" }), {
    id: "measure-now",
    class: "secondary",
  });
  const ask = element("p", { class: "buttons" }, measure, answerTo("measure"));
  if (!fits) {
    const what = "Runs the step itself a few times: on this machine's GPU, or on its CPU where there is none.";
    return [element("p", {}, what), ask];
  }
  return [table(found), ...notes(found), ask];
}

function table({ device, measured, estimated, knobs }: Measurement): HTMLElement {
  const rows: (string | null)[][] = [
    [
      "Allocated",
      estimated && inBytes(estimated.allocatedBytes),
      inBytes(measured.allocatedBytes),
      off(estimated?.allocatedBytes, measured.allocatedBytes),
    ],
  ];
  const reserved = measured.reservedBytes;
  if (reserved !== null) {
    rows.push([
      "Reserved",
      inBytes(estimated?.reservedBytes ?? 0),
      inBytes(reserved),
      off(estimated?.reservedBytes, reserved),
    ]);
  }
  if (measured.processBytes) {
    const expected = estimated?.processBytes;
    rows.push(["Process", expected ? inRange(expected) : null, inRange(measured.processBytes), null]);
  }
  rows.push(["Time of a step", null, time(measured.stepSeconds, measured.stepSecondsRange), null]);
  const head = ["", "Estimated", "Measured", "Estimate is off by"];
  const on = device === "cuda" ? "GPU" : "CPU";
  return element(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": "Estimated and measured" },
    element(
      "table",
      { id: "measured" },
      element(
        "caption",
        {},
        `On the ${on} of this machine, checkpointing: ${nameOfWay(knobs.checkpointing).toLowerCase()}`,
      ),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element(
        "tbody",
        {},
        ...rows.map(([name = "", ...cells]) =>
          element(
            "tr",
            {},
            element("th", { scope: "row" }, name),
            ...cells.map((cell) => element("td", {}, cell ?? "–")),
          ),
        ),
      ),
    ),
  );
}

function notes({ device, measured }: Measurement): Child[] {
  const said = measured.assumptions.map((note) => element("li", {}, note));
  const cpu = "A CPU has no caching allocator, and its kernels take other temporaries: its figures are not a GPU's.";
  return [
    device === "cpu" && element("p", { class: "note" }, cpu),
    said.length > 0 && element("details", {}, element("summary", {}, "What was assumed"), element("ul", {}, ...said)),
  ];
}

function off(estimated: number | null | undefined, measured: number): string | null {
  if (estimated === null || estimated === undefined || measured === 0) return null;
  const percent = (estimated / measured - 1) * 100;
  return `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(2)} %`;
}

function time(seconds: number | null, range: { low: number; high: number } | null | undefined): string {
  if (seconds === null) return "–";
  const spread = range ? ` (${inSeconds(range.low)} to ${inSeconds(range.high)})` : "";
  return `${inSeconds(seconds)}${spread}`;
}

function inSeconds(seconds: number): string {
  return seconds < 1 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(2)} s`;
}
