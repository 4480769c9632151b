/** The phases of the two steps, as the timeline marks them. */

import type { Timeline } from "../messages";

export interface Phase {
  readonly name: string;
  readonly step: number;
  readonly from: number;
  readonly to: number;
}

/**
 * From the start to the first mark the model is loaded; the second time a phase comes up it is the second step. A
 * recording without marks has no phases.
 */
export function phasesOf({ marks, points }: Timeline): Phase[] {
  if (marks.length === 0) return [];
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

export function inWords({ name, step }: Phase): string {
  return `Step ${step}, ${name}`;
}
