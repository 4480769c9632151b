/** The real step on this machine, beside what was estimated for it. */

import { button, type Child, element } from "../../report/page/elements";
import { answerTo } from "../../report/page/sections";
import { type Knobs, nameOfWay, sameStep } from "../knobs";
import { AGREES_WITHIN, MATTERS_FROM, type RankFigures } from "../messages";
import { inBytes, inRange } from "../numbers";
import type { Figures, FromPage, Measurement } from "../page_messages";
import { perRank } from "./need";
import { tableOf } from "./table";

export function measurement({ measurement: found, knobs }: Figures, send: (message: FromPage) => void): Child[] {
  const fits = found && sameStep(found.knobs, knobs) && found.knobs.checkpointing === knobs.checkpointing;
  const measure = button(fits ? "Measure again" : "Measure", () => send({ kind: "measure" }), {
    id: "measure-now",
    class: "secondary",
  });
  const ask = element("p", { class: "buttons" }, measure, answerTo("measure"));
  if (!fits) {
    return [element("p", {}, whatRuns(knobs)), ask];
  }
  return [table(found), farOff(found), ...notes(found), ask];
}

function whatRuns({ worldSize }: Knobs): string {
  const what = "Runs the step itself a few times: on this machine's GPU, or on its CPU where there is none.";
  if (worldSize === null) return what;
  return `Starts ${worldSize} processes through torchrun, one for each of ${worldSize} GPUs of this machine, or on its CPU, and runs the step on all of them. Several machines are not measured.`;
}

/** Said where the two are further apart than the estimate's own check allows. */
function farOff({ measured, estimated }: Measurement): Child {
  const pairs = [
    [estimated?.allocatedBytes, measured.allocatedBytes],
    [estimated?.reservedBytes, measured.reservedBytes],
  ];
  const isOff = pairs.some(([told, came]) => told && came && isFar(told, came));
  if (!isOff) return null;
  const limit = `${AGREES_WITHIN * 100} %`;
  const words = `The estimate is off by more than the ${limit} of its self-check: trust the measurement, and what else is estimated for this model less.`;
  return element("p", { id: "far-off" }, element("strong", {}, "⚠ "), words);
}

/** A few hundred KiB are what threads and communication keep; beside a tiny model they say nothing about estimates. */
function isFar(told: number, came: number): boolean {
  return Math.abs(told - came) > Math.max(AGREES_WITHIN * came, MATTERS_FROM);
}

function table(found: Measurement): HTMLElement {
  const on = found.device === "cuda" ? "GPU" : "CPU";
  const way = nameOfWay(found.knobs.checkpointing).toLowerCase();
  const { ranks = [] } = found.measured;
  const where = ranks.length > 0 ? `On ${ranks.length} ranks, each on the ${on}` : `On the ${on}`;
  const about = { id: "measured", caption: `${where} of this machine, checkpointing: ${way}` };
  const rows = rowsOf(found).map((cells) => cells.map((cell) => cell ?? "–"));
  return tableOf(about, ["", "Estimated", "Measured", "Estimate is off by"], rows);
}

function rowsOf({ measured, estimated }: Measurement): (string | null)[][] {
  const { allocatedBytes, reservedBytes, processBytes } = measured;
  const rows: (string | null)[][] = [
    [`Allocated${perRank(measured)}`, ...beside(estimated?.allocatedBytes, allocatedBytes)],
  ];
  if (reservedBytes !== null)
    rows.push([`Reserved${perRank(measured)}`, ...beside(estimated?.reservedBytes, reservedBytes)]);
  if (processBytes) {
    const expected = estimated?.processBytes;
    rows.push(["Process", expected ? inRange(expected) : null, inRange(processBytes), null]);
  }
  const { ranks = [] } = measured;
  if (ranks.length > 1) rows.push(["Least of any rank", null, inBytes(least(ranks)), null]);
  rows.push(["Time of a step", null, time(measured.stepSeconds, measured.stepSecondsRange), null]);
  return rows;
}

function least(ranks: readonly RankFigures[]): number {
  return Math.min(...ranks.map(({ allocatedBytes }) => allocatedBytes));
}

function beside(estimated: number | null | undefined, measured: number): (string | null)[] {
  return [typeof estimated === "number" ? inBytes(estimated) : null, inBytes(measured), off(estimated, measured)];
}

function notes({ device, measured, notOnGpu }: Measurement): Child[] {
  const said = measured.assumptions.map((note) => element("li", {}, note));
  const cpu = "A CPU has no caching allocator, and its kernels take other temporaries: its figures are not a GPU's.";
  return [
    notOnGpu !== null && element("p", { id: "not-on-gpu" }, `Measured on the CPU, not on a GPU: ${notOnGpu}.`),
    device === "cpu" && element("p", { class: "note" }, cpu),
    said.length > 0 && element("details", {}, element("summary", {}, "What was assumed"), element("ul", {}, ...said)),
  ];
}

function off(estimated: number | null | undefined, measured: number): string | null {
  if (estimated === null || estimated === undefined || measured === 0) return null;
  const percent = (estimated / measured - 1) * 100;
  const size = Math.abs(percent).toFixed(2);
  const sign = Number(size) === 0 ? "" : percent < 0 ? "−" : "+";
  return `${sign}${size} %`;
}

function time(seconds: number | null, range: { low: number; high: number } | null | undefined): string {
  if (seconds === null) return "–";
  const spread = range ? ` (${inSeconds(range.low)} to ${inSeconds(range.high)})` : "";
  return `${inSeconds(seconds)}${spread}`;
}

function inSeconds(seconds: number): string {
  return seconds < 1 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(2)} s`;
}
