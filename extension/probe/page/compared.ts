/** What the code as written needed before it was changed, and what it needs now. */

import { type Child, element } from "../../report/page/elements";
import { section } from "../../report/page/sections";
import { nameOfWay, sameStep } from "../knobs";
import { AS_WRITTEN, type VariantResult } from "../messages";
import { inBytes, inRange } from "../numbers";
import type { Figures } from "../page_messages";
import { needOf } from "./need";

export function comparedWith({ before, answer, knobs }: Figures): Child {
  const now = answer.variants.find(({ name }) => name === nameOfWay(AS_WRITTEN));
  if (!before || !now || !sameStep(before.knobs, knobs)) return null;
  const was = before.variant;
  const rows: [string, number, number][] = [
    ["Allocated", was.allocatedBytes, now.allocatedBytes],
    ["Saved by forward", was.savedActivationBytes, now.savedActivationBytes],
  ];
  if (was.reservedBytes !== null && now.reservedBytes !== null) {
    rows.splice(1, 0, ["Reserved", was.reservedBytes, now.reservedBytes]);
  }
  return section(
    "compared",
    "Before and after",
    element("p", { id: "compared-verdict" }, ...verdict(was, now)),
    element(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": "Before and after" },
      element(
        "table",
        {},
        element("caption", {}, "The code as written, with the same settings"),
        element(
          "thead",
          {},
          element("tr", {}, ...["", "Before", "After", "Change"].map((name) => element("th", { scope: "col" }, name))),
        ),
        element(
          "tbody",
          {},
          ...rows.map(([name, a, b]) => row(name, inBytes(a), inBytes(b), change(a, b))),
          ...others(was, now),
        ),
      ),
    ),
  );
}

function others(was: VariantResult, now: VariantResult): HTMLElement[] {
  const recomputed = ({ checkpointed }: VariantResult) =>
    checkpointed.map(({ className, count }) => `${count} × ${className}`).join(", ") || "nothing";
  return [
    row("Needs", inRange(needOf(was)), inRange(needOf(now)), ""),
    row("Peak in", was.peakPhase, now.peakPhase, ""),
    row("Recomputed", recomputed(was), recomputed(now), ""),
  ];
}

function row(name: string, ...cells: string[]): HTMLElement {
  return element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((cell) => element("td", {}, cell)));
}

function verdict(was: VariantResult, now: VariantResult): Child[] {
  const less = was.allocatedBytes - now.allocatedBytes;
  if (less === 0)
    return ["The peak is ", element("strong", {}, "the same"), ` as before, ${inBytes(now.allocatedBytes)}.`];
  const share = Math.round((Math.abs(less) / was.allocatedBytes) * 100);
  const words = `${inBytes(Math.abs(less))} (${share} %) ${less > 0 ? "lower" : "higher"}`;
  return [
    "The peak is ",
    element("strong", {}, words),
    ` than before: ${inBytes(was.allocatedBytes)} → ${inBytes(now.allocatedBytes)}.`,
  ];
}

function change(was: number, now: number): string {
  if (was === now) return "none";
  return now < was ? `−${inBytes(was - now)}` : `+${inBytes(now - was)}`;
}
