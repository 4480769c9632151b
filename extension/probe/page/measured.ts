/** The real step on this machine, beside what was estimated for it. */

import { button, type Child, element } from "../../report/page/elements";
import { answerTo } from "../../report/page/sections";
import { nameOfWay, sameStep } from "../knobs";
import { inBytes, inRange } from "../numbers";
import type { Figures, FromPage, Measurement } from "../page_messages";
import { tableOf } from "./table";

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

function table(found: Measurement): HTMLElement {
  const on = found.device === "cuda" ? "GPU" : "CPU";
  const way = nameOfWay(found.knobs.checkpointing).toLowerCase();
  const about = { id: "measured", caption: `On the ${on} of this machine, checkpointing: ${way}` };
  const rows = rowsOf(found).map((cells) => cells.map((cell) => cell ?? "–"));
  return tableOf(about, ["", "Estimated", "Measured", "Estimate is off by"], rows);
}

function rowsOf({ measured, estimated }: Measurement): (string | null)[][] {
  const { allocatedBytes, reservedBytes, processBytes } = measured;
  const rows: (string | null)[][] = [["Allocated", ...beside(estimated?.allocatedBytes, allocatedBytes)]];
  if (reservedBytes !== null) rows.push(["Reserved", ...beside(estimated?.reservedBytes, reservedBytes)]);
  if (processBytes) {
    const expected = estimated?.processBytes;
    rows.push(["Process", expected ? inRange(expected) : null, inRange(processBytes), null]);
  }
  rows.push(["Time of a step", null, time(measured.stepSeconds, measured.stepSecondsRange), null]);
  return rows;
}

function beside(estimated: number | null | undefined, measured: number): (string | null)[] {
  return [typeof estimated === "number" ? inBytes(estimated) : null, inBytes(measured), off(estimated, measured)];
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
