/** What the panel shows of a model, and what the page may therefore ask for. */

import type { ProbeAnswer, Snapshot } from "../protocol";
import { findingsFor } from "./findings";
import { type Knobs, sameStep } from "./knobs";
import type { Advised, Before, Measurement, Planned } from "./page_messages";
import { placesIn, type Texts } from "./places";
import type { Model } from "./targets";

/** What the page shows, and the files it is about as they were read then. */
export interface Shown {
  readonly answer: ProbeAnswer;
  readonly knobs: Knobs;
  readonly texts: Texts;
  readonly before: Before | null;
  readonly advised: Advised | null;
  readonly measurement: Measurement | null;
  readonly planned: Planned | null;
}

/** What the code needed before it was changed, where that was asked of the same step. */
export function beforeOf(shown: Shown | undefined, knobs: Knobs): Before | null {
  const before = shown?.before ?? null;
  return before && sameStep(before.knobs, knobs) ? before : null;
}

/** Whether the answer, or the recording, itself names that line. */
export function isNamed(
  path: string,
  line: number,
  shown: Shown | undefined,
  model: Model | undefined,
  recorded: Snapshot | undefined,
): boolean {
  if (recorded?.timeline.modules.includes(`${path}:${line}`)) return true;
  const places = shown && model ? [...placesIn(shown.answer), ...findingsFor(shown.answer, model)] : [];
  return places.some((place) => place.path === path && place.line === line);
}
