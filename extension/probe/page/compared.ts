/** What the code as written needed before it was changed, and what it needs now. */

import { type Child, element } from "../../report/page/elements";
import { section } from "../../report/page/sections";
import { nameOfWay, sameStep } from "../knobs";
import { AS_WRITTEN, type VariantResult } from "../messages";
import { inBytes, inRange } from "../numbers";
import type { Figures } from "../page_messages";
import { needOf, perRank } from "./need";
import { tableOf } from "./table";

export function comparedWith({ before, answer, knobs }: Figures): Child {
  const now = answer.variants.find(({ name }) => name === nameOfWay(AS_WRITTEN));
  if (!before || !now || !sameStep(before.knobs, knobs)) return null;
  const was = before.variant;
  return section(
    "compared",
    "Before and after",
    element("p", { id: "compared-verdict" }, ...verdict(was, now)),
    tableOf(
      { caption: `The code as written, with the same settings${perRank(now)}` },
      ["", "Before", "After", "Change"],
      [...inFigures(was, now), ...inWords(was, now)],
    ),
  );
}

function inFigures(was: VariantResult, now: VariantResult): string[][] {
  const pairs: [string, number | null, number | null][] = [
    ["Allocated", was.allocatedBytes, now.allocatedBytes],
    ["Reserved", was.reservedBytes, now.reservedBytes],
    ["Saved by forward", was.savedActivationBytes, now.savedActivationBytes],
  ];
  return pairs.flatMap(([name, a, b]) =>
    a === null || b === null ? [] : [[name, inBytes(a), inBytes(b), change(a, b)]],
  );
}

function inWords(was: VariantResult, now: VariantResult): string[][] {
  const recomputed = ({ checkpointed }: VariantResult) =>
    checkpointed.map(({ className, count }) => `${count} × ${className}`).join(", ") || "nothing";
  return [
    ["Needs", inRange(needOf(was)), inRange(needOf(now)), ""],
    ["Peak in", was.peakPhase, now.peakPhase, ""],
    ["Recomputed", recomputed(was), recomputed(now), ""],
  ];
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
