/** The script of the report's page: shows what the extension sends, sends which button was pressed. */

import type { FromPage, ToPage } from "../messages";
import { button, type Child, element } from "./elements";
import { report, type Send, section } from "./sections";

declare function acquireVsCodeApi(): { postMessage(message: unknown): void };

const editor = acquireVsCodeApi();
const tell = (message: FromPage) => editor.postMessage(message);
const sendAbout =
  (report: number): Send =>
  (pressed) =>
    tell({ ...pressed, report });
/** The number of the report on the page, if one is. */
let shown: number | undefined;

window.addEventListener("message", ({ data }: MessageEvent<ToPage>) => {
  if (data.kind === "said") {
    if (data.report === shown) answer(data);
    return;
  }
  shown = data.kind === "report" ? data.number : undefined;
  switch (data.kind) {
    case "busy":
      return show(element("p", { class: "busy", role: "status" }, "Reading ", element("code", {}, data.name), " …"));
    case "failed":
      return show(...failed(data.name, data.why));
    case "report":
      return show(...report(data, sendAbout(data.number)));
  }
});

function show(...children: Child[]): void {
  const page = element("main", { id: "report" }, ...children);
  document.getElementById("report")?.replaceWith(page);
  window.scrollTo(0, 0);
}

function failed(name: string, why: string): Child[] {
  return [
    element("h1", {}, "No diagnosis"),
    section(
      "why",
      "Why",
      element("p", { role: "alert" }, why),
      element("p", {}, "The log is ", element("code", {}, name), "."),
      element(
        "p",
        { class: "buttons" },
        button("Restart server", () => tell({ kind: "restart" })),
        button("Show logs", () => tell({ kind: "showLogs" }), { class: "secondary" }),
      ),
    ),
  ];
}

function answer({ report: number, about, words, next }: Extract<ToPage, { kind: "said" }>): void {
  const place = document.querySelector(`[data-about="${CSS.escape(about)}"]`);
  if (place) place.textContent = words;
  const pressed = document.querySelector<HTMLButtonElement>(
    `[data-repair="${CSS.escape(about.replace("repair-", ""))}"]`,
  );
  if (!pressed || !next) return;
  if (next === "none") {
    pressed.remove();
    return;
  }
  const saving = button(
    "Save file",
    () => sendAbout(number)({ kind: "saveRepair", repair: Number(pressed.dataset.repair) }),
    {
      "data-repair": pressed.dataset.repair,
    },
  );
  pressed.replaceWith(saving);
  saving.focus();
}

tell({ kind: "ready" });
