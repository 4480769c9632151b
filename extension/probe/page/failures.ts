/** Why a model could not be probed, and what is missing. */

import type { ProbeAnswer } from "../../protocol";
import { button, type Child, element, link, sentence } from "../../report/page/elements";
import { answerTo } from "../../report/page/sections";
import { commentOf } from "../comment";
import { knobsNamed } from "../knobs";
import type { Failure } from "../messages";
import type { Code, FromPage } from "../page_messages";
import { short } from "./breakdown";
import { LABELS } from "./controls";

export function failuresOf({ failures }: ProbeAnswer, code: Code, send: (message: FromPage) => void): Child[] {
  return failures.map((failure, index) => card(failure, index, code, send));
}

function card(failure: Failure, index: number, code: Code, send: (message: FromPage) => void): HTMLElement {
  const { message, missing, stage, details } = failure;
  return element(
    "div",
    { class: "card failure", role: "alert" },
    element(
      "p",
      {},
      missing?.fact === message && element("strong", {}, "Not known: "),
      ...sentence(message),
      !missing && element("span", { class: "note" }, ` (while it ${STAGES[stage] ?? `was at ${stage}`})`),
    ),
    place(failure, code, send),
    ...whatToDo(failure, index, send),
    inThisPanel(failure),
    details &&
      !missing &&
      element("details", {}, element("summary", {}, "Traceback"), element("pre", { tabindex: "0" }, details)),
  );
}

function place({ location }: Failure, code: Code, send: (message: FromPage) => void): Child {
  if (!location) return null;
  const { path, line } = location;
  const text = code[`${path}:${line}`];
  const opened = link(`${short(path)}:${line}`, () => send({ kind: "open", path, line }), { title: path });
  return element("p", {}, opened, " ", text && element("code", { class: "source" }, text));
}

function whatToDo(failure: Failure, index: number, send: (message: FromPage) => void): Child[] {
  const { message, missing } = failure;
  if (!missing) return [];
  const comment = commentOf(failure);
  return [
    missing.fact !== message && element("p", {}, element("strong", {}, "Missing: "), ...sentence(missing.fact), "."),
    element("p", {}, comment ? "Say it in a comment above the model:" : "What to do:"),
    element("pre", { tabindex: "0" }, comment ?? missing.how),
    comment &&
      element(
        "p",
        { class: "buttons" },
        button("Insert this line", () => send({ kind: "insert", failure: index })),
        answerTo(`failure-${index}`),
      ),
  ];
}

/** Options of the command line stand on this page too, under names of their own. */
function inThisPanel({ message, missing }: Failure): Child {
  const names = knobsNamed(`${message} ${missing?.how ?? ""}`).flatMap((knob) =>
    knob === "reentrant" ? [] : LABELS[knob],
  );
  return names.length > 0 && element("p", { class: "in-panel" }, `In this panel: ${names.join(", ")}, above.`);
}

const STAGES: Readonly<Record<string, string>> = {
  import: "imported the file",
  build: "built the model",
  forward: "ran forward",
  backward: "ran backward",
  optimizer: "ran the optimizer",
};
