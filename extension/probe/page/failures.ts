/** Why a model could not be probed, and what is missing. */

import type { ProbeAnswer } from "../../protocol";
import { button, type Child, element, link, sentence } from "../../report/page/elements";
import { answerTo } from "../../report/page/sections";
import { commentOf } from "../comment";
import type { Failure } from "../messages";
import type { Code, FromPage } from "../page_messages";
import { short } from "./breakdown";

export function failuresOf({ failures }: ProbeAnswer, code: Code, send: (message: FromPage) => void): Child[] {
  return failures.map((failure, index) => card(failure, index, code, send));
}

function card(failure: Failure, index: number, code: Code, send: (message: FromPage) => void): HTMLElement {
  const { message, location, missing, stage, details } = failure;
  const comment = commentOf(failure);
  const place = location && `${short(location.path)}:${location.line}`;
  const text = location && code[`${location.path}:${location.line}`];
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
    location &&
      element(
        "p",
        {},
        link(place ?? "", () => send({ kind: "open", path: location.path, line: location.line }), {
          title: location.path,
        }),
        " ",
        text && element("code", { class: "source" }, text),
      ),
    missing &&
      missing.fact !== message &&
      element("p", {}, element("strong", {}, "Missing: "), ...sentence(missing.fact), "."),
    missing && element("p", {}, comment ? "Say it in a comment above the model:" : "What to do:"),
    missing && element("pre", { tabindex: "0" }, comment ?? missing.how),
    comment &&
      element(
        "p",
        { class: "buttons" },
        button("Insert this line", () => send({ kind: "insert", failure: index })),
        answerTo(`failure-${index}`),
      ),
    details &&
      !missing &&
      element("details", {}, element("summary", {}, "Traceback"), element("pre", { tabindex: "0" }, details)),
  );
}

const STAGES: Readonly<Record<string, string>> = {
  import: "imported the file",
  build: "built the model",
  forward: "ran forward",
  backward: "ran backward",
  optimizer: "ran the optimizer",
};
