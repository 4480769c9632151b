/** The sections of a report, each from what the server said. A section without anything in it is left out. */

import type { Diagnosis, EvidenceFile, MissingFact, Repair, Statement } from "../../protocol";
import type { Pressed, ToPage } from "../messages";
import { button, type Child, element, link, sentence } from "./elements";
import { logSection, showLine } from "./log";

type Shown = Extract<ToPage, { kind: "report" }>;
export type Send = (pressed: Pressed) => void;

export function report({ diagnosis, mayRun, leftOut }: Shown, send: Send): Child[] {
  return [
    heading(diagnosis, send),
    began(diagnosis, send),
    fix(diagnosis, send),
    verify(diagnosis, mayRun, send),
    missing(diagnosis.missing, send),
    followed(diagnosis),
    statements("also", diagnosis.failed ? "What else to look at" : "Worth knowing", diagnosis.also),
    evidence(diagnosis.evidence, send),
    statements("decided", "How this was decided", diagnosis.decided),
    logSection(diagnosis, leftOut, send),
  ];
}

export function section(id: string, title: string, ...children: Child[]): HTMLElement {
  return element(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    element("h2", { id: `${id}-title` }, title),
    ...children,
  );
}

/** Where the answer to a button appears, and is read out. */
export function answerTo(about: string): HTMLElement {
  return element("span", { class: "answer", role: "status", "data-about": about });
}

function heading({ headline, name, docs, failed }: Diagnosis, send: Send): Child {
  return element(
    "header",
    { class: failed ? "failed" : "" },
    element("p", { class: "source" }, "Diagnosis of ", element("code", {}, name)),
    element("h1", {}, headline),
    element(
      "p",
      { class: "buttons" },
      button("Copy as Markdown", () => send({ kind: "copyMarkdown" }), { class: "secondary" }),
      docs !== null &&
        button("About this kind of failure", () => send({ kind: "openDocs" }), {
          class: "secondary",
          title: `Opens ${docs} in your browser`,
        }),
      answerTo("report"),
    ),
  );
}

function began({ cause, rank, place, headline }: Diagnosis, send: Send): Child {
  if (!cause) return null;
  const said = [headline, headline.replace(/^Rank \d+: /, "")].find((words) => cause.summary.startsWith(words)) ?? "";
  const rest = cause.summary.slice(said.length).replace(/^[.:;\s]+/, ""); // the headline has said the beginning
  const at = place && `${shortened(place.path)}:${place.line}`;
  return section(
    "began",
    "What began it",
    rest && element("p", {}, rest),
    element(
      "dl",
      {},
      rank !== null && fact("Rank", String(rank)),
      at &&
        fact(
          "At",
          place.uri ? link(at, () => send({ kind: "openPlace" }), { title: place.path }) : element("code", {}, at),
        ),
      fact("Kind", element("code", {}, cause.id)),
      cause.lines.length > 0 && fact("Shown by", proof(cause.lines)),
    ),
  );
}

/** Its last folder and its name: enough to know it again. */
function shortened(path: string): string {
  return path
    .split(/[\\/]/)
    .slice(-2)
    .join(path.includes("/") ? "/" : "\\");
}

function fact(name: string, value: Child): HTMLElement {
  return element("div", {}, element("dt", {}, name), element("dd", {}, value));
}

/** The lines that a claim rests on; each leads to the line in the log below. */
function proof(lines: readonly number[]): HTMLElement {
  const shown = lines
    .slice(0, MOST_LINES)
    .map((line) => link(String(line), () => showLine(line), { "aria-label": `line ${line} of the log` }));
  const more = lines.length - shown.length;
  return element(
    "span",
    { class: "proof" },
    lines.length === 1 ? "line " : "lines ",
    ...shown.flatMap((link, index) => (index === 0 ? [link] : [", ", link])),
    more > 0 && ` and ${more} more`,
  );
}

function inBrackets(lines: readonly number[]): Child[] {
  return lines.length === 0 ? [] : [" (", proof(lines), ")"];
}

const MOST_LINES = 6;

function fix({ fix: words, repairs }: Diagnosis, send: Send): Child {
  if (!words && repairs.length === 0) return null;
  const cards = repairs.map((repair, index) => repairCard(repair, index, send));
  return section("fix", "Fix", words && element("p", {}, words), ...cards);
}

function repairCard({ uri, line, rule, message, title, safe }: Repair, index: number, send: Send): HTMLElement {
  const place = `${decodeURIComponent(uri.split("/").at(-1) ?? uri)}:${line + 1}`;
  return element(
    "div",
    { class: "card", role: "group", "aria-label": `${rule} at ${place}` },
    element(
      "p",
      {},
      link(place, () => send({ kind: "openRepair", repair: index })),
      " ",
      element("span", { class: "rule" }, rule),
    ),
    element("p", {}, ...sentence(message)),
    title !== null &&
      element(
        "p",
        { class: "buttons" },
        button("Apply fix", () => send({ kind: "applyRepair", repair: index }), { "data-repair": String(index) }),
        element("span", { class: "note" }, ...sentence(title), safe ? "" : ": read the change before you run it"),
        answerTo(`repair-${index}`),
      ),
  );
}

function verify({ verify: words, shell }: Diagnosis, mayRun: boolean, send: Send): Child {
  if (!words) return null;
  const why = "Nothing is run in a workspace that you have not trusted.";
  const refused = !mayRun && { disabled: true, title: why, "aria-describedby": "verify-refused" };
  return section(
    "verify",
    "Check that it is fixed",
    element("pre", { class: shell ? "command" : "words", tabindex: "0" }, words),
    element(
      "p",
      { class: "buttons" },
      shell && button("Run in terminal", () => send({ kind: "runVerify" }), refused || {}),
      button("Copy", () => send({ kind: "copyVerify" }), { class: "secondary", "aria-label": "Copy how to check it" }),
      shell && !mayRun && element("span", { id: "verify-refused", class: "note" }, why),
      answerTo("verify"),
    ),
  );
}

function missing(facts: readonly MissingFact[], send: Send): Child {
  if (facts.length === 0) return null;
  const items = facts.map(({ fact, why, how }, index) =>
    element(
      "li",
      {},
      element("p", {}, element("strong", {}, fact), why && `: ${why}`),
      how && element("pre", { tabindex: "0" }, how),
      how &&
        element(
          "p",
          { class: "buttons" },
          button("Copy", () => send({ kind: "copyHow", missing: index }), {
            class: "secondary",
            "aria-label": `Copy how to obtain: ${fact}`,
          }),
          answerTo(`missing-${index}`),
        ),
    ),
  );
  return section("missing", "What the log does not say", element("ul", { class: "plain" }, ...items));
}

function followed({ followed: ranks }: Diagnosis): Child {
  if (ranks.length === 0) return null;
  const items = ranks.map(({ summary, lines }) => element("li", {}, summary, ...inBrackets(lines)));
  const list = element("ul", {}, ...items);
  const title = "What followed";
  if (ranks.length <= MOST_RANKS) return section("followed", title, list);
  return section("followed", title, element("details", {}, element("summary", {}, `${ranks.length} ranks`), list));
}

const MOST_RANKS = 8;

function statements(id: string, title: string, all: readonly Statement[]): Child {
  if (all.length === 0) return null;
  const items = all.map(({ summary, lines }) => element("li", {}, summary, ...inBrackets(lines)));
  return section(id, title, element("ul", {}, ...items));
}

function evidence(files: readonly EvidenceFile[], send: Send): Child {
  if (files.length === 0) return null;
  const items = files.map(({ path, what, read }, index) =>
    element(
      "li",
      {},
      element("code", {}, path),
      what && ` (${what})`,
      read ? element("span", { class: "note" }, " read, and part of this report") : " ",
      !read &&
        button("Read it", () => send({ kind: "permit", evidence: index }), {
          class: "secondary",
          "aria-label": `Read ${path}`,
        }),
    ),
  );
  const waiting = files.filter(({ read }) => !read).length;
  const why = "They are outside the workspace, so they are read only if you say so. They stay on this machine.";
  return section(
    "evidence",
    "Files that the log names",
    waiting > 0 && element("p", {}, why),
    element("ul", {}, ...items),
    waiting > 1 && button("Read all", () => send({ kind: "permitAll" }), { class: "secondary" }),
  );
}
