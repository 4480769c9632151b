/** What a real run recorded, on the same chart as an estimate. */

import type { Snapshot } from "../../protocol";
import { type Child, element } from "../../report/page/elements";
import { section } from "../../report/page/sections";
import { inBytes } from "../numbers";
import { timelineOf } from "./timeline";

export function recordedRun({ timeline, peakBytes }: Snapshot, width: number): Child[] {
  const where = timeline.modules[timeline.peak];
  return [
    element(
      "header",
      { id: "headline" },
      element("h1", {}, `Peak of ${inBytes(peakBytes)}`),
      element(
        "p",
        { class: "room" },
        "What tensors asked for, without the allocator's rounding.",
        where ? ` The allocation at the peak was made at ${where}.` : "",
      ),
      element("p", { class: "badges" }, element("strong", { class: "badge measured" }, "Recorded by a real run")),
    ),
    section("timeline", "Along the recording", timelineOf(timeline, null, width)),
  ];
}
