/** Buttons that write a plan into the code, and what became of it. */

import { button, type Child, element, sentence } from "../../report/page/elements";
import { answerTo } from "../../report/page/sections";
import type { FromPage, Planned, PlanPlace } from "../page_messages";

type Send = (message: FromPage) => void;

/** `name`: of the plan, for those who do not see what stands beside the button. */
export function applyButton({ from, index }: PlanPlace, label: string, name: string, send: Send): HTMLElement {
  const about = `apply-${from}-${index}`;
  return element(
    "span",
    { class: "apply" },
    button(label, () => send({ kind: "apply", from, index }), {
      id: about,
      class: "secondary",
      "aria-label": `Apply to code: ${name}`,
    }),
    answerTo(about),
  );
}

/** Below the list that the plan is from. */
export function outcome(planned: Planned | null, from: readonly PlanPlace["from"][], send: Send): Child {
  if (!planned || !from.includes(planned.from)) return null;
  const { applied, what, notes = [], code = "", line } = planned.answer;
  return applied ? done(what, notes, line ?? 1, send) : byHand(what, code, send);
}

function done(what: string, notes: readonly string[], line: number, send: Send): HTMLElement {
  return element(
    "div",
    { class: "card planned", role: "status" },
    element("p", {}, element("strong", {}, "✓ Written. "), ...sentence(`${what}.`)),
    ...notes.map((note) => element("p", {}, element("strong", {}, "Note: "), ...sentence(`${note}.`))),
    element("p", { class: "note" }, "The file is not saved yet; Ctrl+Z in it takes the change back."),
    element(
      "p",
      { class: "buttons" },
      button("Compare memory before and after", () => send({ kind: "compare" })),
      button(`Go to line ${line}`, () => send({ kind: "openPlanned" }), { class: "secondary" }),
    ),
  );
}

function byHand(why: string, code: string, send: Send): HTMLElement {
  return element(
    "div",
    { class: "card planned by-hand", role: "status" },
    element("p", {}, element("strong", {}, "Not written: "), ...sentence(`${lowered(why)}.`)),
    code !== "" && element("p", {}, "Write it by hand, along these lines:"),
    code !== "" && element("pre", { tabindex: "0" }, code),
    code !== "" &&
      element(
        "p",
        { class: "buttons" },
        button("Copy", () => send({ kind: "copyPlanned" }), { class: "secondary" }),
        answerTo("planned"),
      ),
  );
}

/** As the end of a sentence; names keep their case. */
function lowered(text: string): string {
  return /^[A-Z][a-z]+ (?!\()/.test(text) && !/^(Remat|FSDP)/.test(text)
    ? text.charAt(0).toLowerCase() + text.slice(1)
    : text;
}
