/** What a real run recorded, on the same chart as an estimate. */

import type { Snapshot } from "../../protocol";
import { type Child, element, link } from "../../report/page/elements";
import { section } from "../../report/page/sections";
import { inBytes } from "../numbers";
import { shortPlace, timelineOf } from "./timeline";

type Open = (path: string, line: number) => void;

export function recordedRun({ timeline, peakBytes }: Snapshot, width: number, open: Open): Child[] {
  const where = timeline.modules[timeline.peak] ?? "";
  return [
    element(
      "header",
      { id: "headline" },
      element("h1", {}, `Peak of ${inBytes(peakBytes)}`),
      element(
        "p",
        { class: "room" },
        "What tensors asked for, without the allocator's rounding.",
        ...madeAt(where, open),
      ),
      element("p", { class: "badges" }, element("strong", { class: "badge measured" }, "Recorded by a real run")),
    ),
    section("timeline", "Along the recording", timelineOf(timeline, null, width)),
  ];
}

function madeAt(where: string, open: Open): Child[] {
  const [, path, line] = /^(.+):(\d+)$/.exec(where) ?? [];
  if (path === undefined) return [];
  const to = link(shortPlace(where), () => open(path, Number(line)), { title: `Open ${where}` });
  return [" The last allocation before the peak was made at ", to, "."];
}
