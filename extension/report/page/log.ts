/** The log's lines: those that prove something are marked, those left out are counted. */

import type { Diagnosis, LogFile, LogLine } from "../../protocol";
import { type Child, element, link } from "./elements";
import { type Send, section } from "./sections";

const LONGEST_LINE = 2_000;

export function logSection({ log, lineCount, files }: Diagnosis, leftOut: string | null, send: Send): Child {
  if (log.length === 0) return null;
  const rows: Child[] = [];
  let next = 1;
  let before: LogFile | undefined;
  for (const line of log) {
    if (line.number > next) rows.push(gap(line.number - next));
    const file = files.findLast(({ firstLine }) => firstLine <= line.number);
    if (file && file !== before) rows.push(heading(file, line.number));
    before = file;
    rows.push(row(line, send));
    next = line.number + 1;
  }
  if (lineCount >= next) rows.push(gap(lineCount - next + 1));
  const proving = log.filter(({ proves }) => proves).length;
  const legend = `${count(lineCount, "line")} in all. ${proving === 0 ? "No line proves anything" : `▶ marks the ${count(proving, "line")} that this report rests on`}.`;
  return section(
    "log",
    "The log",
    element("p", { class: "note" }, legend),
    leftOut !== null &&
      element(
        "p",
        { class: "note" },
        `It was longer: of its middle ${leftOut} were not kept. A log in a file is read whole.`,
      ),
    element("ol", { class: "log", tabindex: "0", "aria-label": "Lines of the log" }, ...rows),
  );
}

function row(line: LogLine, send: Send): HTMLElement {
  return element(
    "li",
    { id: `line-${line.number}`, class: line.proves ? "proves" : "", tabindex: "-1" },
    element("span", { class: "number" }, String(line.number)),
    element("span", { class: "mark", "aria-label": line.proves ? "proof" : undefined }, line.proves ? "▶" : ""),
    element("code", {}, ...pieces(line, send)),
  );
}

/** The text with its links as buttons. */
function pieces({ number, text, links }: LogLine, send: Send): Child[] {
  const made: Child[] = [];
  let from = 0;
  for (const [index, { start, end, line: target }] of links.entries()) {
    if (start < from || end > text.length) continue;
    made.push(
      text.slice(from, start),
      link(text.slice(start, end), () => send({ kind: "openLogLink", line: number, link: index }), {
        title: `Open at line ${target}`,
      }),
    );
    from = end;
  }
  const rest = text.slice(from);
  made.push(rest.slice(0, LONGEST_LINE));
  if (rest.length > LONGEST_LINE) {
    made.push(element("span", { class: "note" }, ` … ${count(rest.length - LONGEST_LINE, "more character")}`));
  }
  return made;
}

/** Which file the lines below are of: numbers count through all of them. */
function heading({ name, firstLine }: LogFile, line: number): HTMLElement {
  const own = line - firstLine + 1;
  return element("li", { class: "file" }, element("strong", {}, name), own === 1 ? "" : ` from its line ${own}`);
}

function gap(lines: number): HTMLElement {
  return element("li", { class: "gap" }, `${count(lines, "line")} not shown`);
}

function count(number: number, what: string): string {
  return `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
}

export function showLine(line: number): void {
  const row = document.getElementById(`line-${line}`);
  if (!row) return;
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
}
