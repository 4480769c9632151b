/** What lowers the peak: each change with the figure that was simulated for it. */

import type { AdviceRow, AdviseAnswer } from "../../protocol";
import { button, type Child, element, sentence } from "../../report/page/elements";
import { type Knobs, knobsOf, nameOfWay, sameStep } from "../knobs";
import { inBytes } from "../numbers";
import type { Figures, FromPage, PlanPlace } from "../page_messages";
import { applyButton, outcome } from "./applying";
import { perRank } from "./need";
import { tableOf } from "./table";

type Send = (message: FromPage) => void;
type Turn = (knobs: Knobs) => void;

export function advice({ advised, knobs, planned }: Figures, turn: Turn, send: Send): Child[] {
  const ask = button(advised ? "Advise again" : "Advise", () => send({ kind: "advise" }), {
    id: "advise",
    ...(advised ? { class: "secondary" } : {}),
  });
  if (!advised || !sameStep(advised.knobs, knobs)) {
    return [
      element("p", {}, "Changes are simulated one by one: checkpointing, optimizer, dtype, batch. This takes a while."),
      element("p", { class: "buttons" }, ask),
    ];
  }
  const { answer } = advised;
  if (answer.failures.length > 0)
    return [...answer.failures.map(({ message }) => element("p", { role: "alert" }, message)), ask];
  const show = (row: AdviceRow) => turn(knobsOf(row.variant, knobs.gpu));
  const way = nameOfWay(advised.knobs.checkpointing).toLowerCase();
  return [
    element("p", { id: "dominant" }, ...sentence(`${capital(answer.dominant)} (checkpointing: ${way}).`)),
    answer.why !== null && element("p", {}, ...sentence(`${capital(answer.why)}.`)),
    changes(answer.changes, "changes", `Single changes${perRank(knobs)}, the greatest gain first`, show, send),
    ...forCard(answer, show, send),
    outcome(planned, ["changes", "steps", "fewest"], send),
    element(
      "p",
      { class: "buttons" },
      ask,
      element("span", { class: "note" }, `${answer.simulated} variants simulated`),
    ),
  ];
}

function forCard(answer: AdviseAnswer, show: (row: AdviceRow) => void, send: Send): Child[] {
  const { gpu, fits, steps, fewestBlocks, largestBatch } = answer;
  if (gpu === null) {
    return [element("p", { class: "note" }, "Choose a GPU above to be told the largest batch and what makes it fit.")];
  }
  const last = steps.at(-1);
  return [
    element("h3", {}, `To fit into ${gpu}`),
    fits === true && element("p", {}, "It fits as it is."),
    last && changes(steps, "steps", `One after the other; then: ${last.verdict ?? ""}`, show, send),
    fits === false && !last && element("p", {}, "No change that Remat knows makes it fit."),
    fewestBlocks &&
      changes(
        [fewestBlocks.row],
        "fewest",
        fewestBlocks.infeasible
          ? "By checkpointing alone it does not fit"
          : "By checkpointing alone, the fewest blocks",
        show,
        send,
      ),
    largestBatch && element("p", { id: "largest-batch" }, batchInWords(largestBatch)),
  ];
}

function batchInWords({ size, beyond, minimumBytes }: NonNullable<AdviseAnswer["largestBatch"]>): string {
  if (size === 0) return `No batch fits as it is: a batch of 1 needs up to ${inBytes(minimumBytes ?? 0)}.`;
  return `Largest batch that surely fits as it is: ${size}${beyond === null ? "" : ` (${beyond} does not surely fit)`}.`;
}

function changes(
  rows: readonly AdviceRow[],
  from: PlanPlace["from"],
  caption: string,
  show: (row: AdviceRow) => void,
  send: Send,
): Child {
  if (rows.length === 0) return element("p", {}, "No single change that Remat knows lowers the peak by more than 2 %.");
  const made = rows.map((row, index) => {
    const acts = [
      button("Show", () => show(row), { class: "secondary", "aria-label": `Show: ${row.what}` }),
      (row.plan ?? []).length > 0 && applyButton({ from, index }, "Apply to code", row.what, send),
    ];
    const what = element("div", {}, ...sentence(capital(row.what)), element("div", { class: "acts" }, ...acts));
    return [what, inBytes(row.afterBytes), signed(row.beforeBytes - row.afterBytes), row.peakPhase];
  });
  return tableOf({ id: `advice-${from}`, caption }, ["Change", "Peak", "Saves", "Peak in"], made);
}

function signed(saved: number): string {
  return saved < 0 ? `−${inBytes(-saved)}` : inBytes(saved);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
