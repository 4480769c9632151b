/** The script of the probe's page: shows what the extension sends, asks for what the user turns. */

import type { ProbeAnswer, ProbeProgress } from "../../protocol";
import { button, type Child, element } from "../../report/page/elements";
import { answerTo, section } from "../../report/page/sections";
import { CHECKPOINTING, type Knobs, variantOf } from "../knobs";
import type { VariantResult } from "../messages";
import type { Code, Finding, FromPage, Part, Subject, ToPage } from "../page_messages";
import { stageInWords } from "../stages";
import { byCategory, byLine, byModule } from "./breakdown";
import { patterns } from "./categories";
import { controls } from "./controls";
import { effect } from "./effect";
import { failuresOf } from "./failures";
import { headline, tiers } from "./headline";
import { chosenCard } from "./need";
import { timelineOf } from "./timeline";
import { comparison } from "./variants";

declare function acquireVsCodeApi(): { postMessage(message: unknown): void };

interface Shown {
  readonly answer: ProbeAnswer;
  readonly knobs: Knobs;
  readonly code: Code;
  readonly findings: readonly Finding[];
}

const editor = acquireVsCodeApi();
const send = (message: FromPage) => editor.postMessage(message);

const what = element("p", { class: "source" });
const status = element("p", { id: "status", role: "status" });
const cancel = button("Cancel", () => send({ kind: "cancel" }), { class: "secondary", hidden: true });
const again = button("Probe again", () => send({ kind: "again" }), { class: "secondary" });
const outdated = element("p", { id: "outdated", role: "status" });
const results = element("div", { id: "results" });
const ran = element("div", {});
const knobs = controls(turned, () => results.classList.add("stale"));
let shown: Shown | undefined;
let wanted: Part | null = null;
/** What the model needed before anything was turned. */
let before: VariantResult | undefined;

window.addEventListener("message", ({ data }: MessageEvent<ToPage>) => {
  switch (data.kind) {
    case "begun":
      return begin(data.subject, data.knobs, data.first);
    case "running":
      return busy(data.progress);
    case "idle":
      return idle(data.cancelled);
    case "answer":
      return show(data, data.subject);
    case "outdated":
      return tellOutdated(data.files);
    case "problem":
      return results.replaceChildren(...filled(problem(data.why)));
    case "said":
      return say(data.about, data.words);
  }
});

function begin(subject: Subject, turnedTo: Knobs, first: Part | null): void {
  wanted = first;
  shown = undefined;
  before = undefined;
  tellOutdated([]);
  what.replaceChildren("Memory probe of ", element("code", {}, subject.name));
  knobs.set(turnedTo);
  results.replaceChildren();
  results.classList.remove("stale");
  tellRan(subject, null);
}

/** Something else is asked for: what is shown is grey until the answer is here. */
function turned(to: Knobs): void {
  wanted = null;
  const known = shown && sameStep(shown.knobs, to) && variantIn(shown.answer, to);
  send({ kind: known ? "select" : "ask", knobs: to });
  if (shown && known) show({ ...shown, knobs: to });
}

function sameStep(one: Knobs, other: Knobs): boolean {
  return JSON.stringify({ ...one, checkpointing: "" }) === JSON.stringify({ ...other, checkpointing: "" });
}

function variantIn({ variants }: ProbeAnswer, of: Knobs): VariantResult | undefined {
  const { name } = variantOf(of);
  return variants.find((variant) => variant.name === name);
}

function busy(progress: ProbeProgress | null): void {
  cancel.hidden = false;
  again.hidden = true;
  results.setAttribute("aria-busy", "true");
  if (progress === null) results.classList.add("stale");
  status.textContent = progress ? `${stageInWords(progress).words} …` : "Starting …";
}

function idle(cancelled: boolean): void {
  wanted = null;
  cancel.hidden = true;
  again.hidden = false;
  results.removeAttribute("aria-busy");
  if (!cancelled) {
    status.textContent = "";
    return;
  }
  status.textContent = shown ? "Cancelled. Below is the answer before." : "Cancelled. Nothing is running any more.";
  if (shown) knobs.set(shown.knobs);
  results.classList.remove("stale");
}

function show(now: Shown, subject?: Subject): void {
  if (subject) tellOutdated([]);
  shown = now;
  const { answer, knobs: of } = now;
  knobs.offer(answer.cards);
  knobs.set(of);
  results.classList.remove("stale");
  const variant = variantIn(answer, of);
  before ??= variant;
  const focused = document.activeElement?.id;
  results.replaceChildren(...filled(variant ? figures(now, variant) : failed(now)));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  if (subject) tellRan(subject, answer);
  if (wanted) document.getElementById(wanted)?.scrollIntoView();
}

function failed({ answer, code }: Shown): Child[] {
  return [
    element("header", { id: "headline", class: "exceeds" }, element("h1", {}, "This model could not be probed")),
    ...failuresOf(answer, code, send),
    element(
      "p",
      { class: "buttons" },
      button("Show logs", () => send({ kind: "showLogs" }), { class: "secondary" }),
    ),
  ];
}

function problem(why: string): Child[] {
  return [
    element("h1", {}, "No answer"),
    element("p", { role: "alert" }, why),
    element(
      "p",
      { class: "buttons" },
      button("Restart server", () => send({ kind: "restart" })),
      button("Show logs", () => send({ kind: "showLogs" }), { class: "secondary" }),
    ),
  ];
}

function figures({ answer, knobs: of, code, findings }: Shown, variant: VariantResult): Child[] {
  const usable = chosenCard(answer)?.usableBytes ?? null;
  const open = (path: string, line: number) => send({ kind: "open", path, line });
  const width = Math.max(results.clientWidth, 360);
  const select = (name: string) => {
    const checkpointing = [...wayOf(answer, of)].find(([, called]) => called === name)?.[0];
    if (checkpointing !== undefined) turned({ ...of, checkpointing });
  };
  return [
    headline(answer, variant, of.gpu, before),
    tiers(variant),
    section("timeline", "Along two steps", timelineOf(variant.timeline, usable, width)),
    section("compare", "Ways to checkpoint", ...comparison(answer, variant, width, select)),
    section("effect", "Did checkpointing take effect?", ...effect(answer, variant, findings, open)),
    section("breakdown", "Where it goes", byCategory(variant), byLine(variant, code, open), byModule(variant)),
    section("assumptions", "Assumptions", assumptions(variant)),
  ];
}

function wayOf(answer: ProbeAnswer, of: Knobs): Map<string, string> {
  const names = new Set(answer.variants.map(({ name }) => name));
  return new Map(
    [...CHECKPOINTING, [of.checkpointing, variantOf(of).name] as const].filter(([, name]) => names.has(name)),
  );
}

function assumptions({ assumptions: all }: VariantResult): HTMLElement {
  if (all.length === 0) return element("p", {}, "None.");
  return element("ul", {}, ...all.map((one) => element("li", {}, one)));
}

function tellOutdated(files: readonly string[]): void {
  const verb = files.length === 1 ? "has" : "have";
  outdated.textContent = files.length > 0 ? `⚠ ${files.join(", ")} ${verb} changed since. Probe again.` : "";
}

function tellRan({ command, python }: Subject, answer: ProbeAnswer | null): void {
  const versions = Object.entries(answer?.environment?.versions ?? {}).map(([name, version]) => `${name} ${version}`);
  ran.replaceChildren(
    section(
      "ran",
      answer ? "What was run" : "What is run",
      element("pre", { tabindex: "0" }, command),
      element(
        "p",
        { class: "note" },
        `Python: ${answer?.environment?.python || python}`,
        versions.length > 0 && ` (${versions.join(", ")})`,
        answer && `, ${answer.seconds.toFixed(1)} s`,
        ". The model is built and its step traced without weights and without a GPU; the training script is not run.",
      ),
      element(
        "p",
        { class: "buttons" },
        button("Copy as command", () => send({ kind: "copyCommand" }), { class: "secondary" }),
        answerTo("command"),
      ),
    ),
  );
}

function say(about: string, words: string): void {
  const place = document.querySelector(`[data-about="${CSS.escape(about)}"]`);
  if (place) place.textContent = words;
}

function filled(children: readonly Child[]): Node[] {
  return children.filter((child): child is Node => child instanceof Node);
}

let drawnAt = 0;
new ResizeObserver(() => {
  const width = results.clientWidth;
  if (Math.abs(width - drawnAt) < 8) return;
  drawnAt = width;
  if (shown) show(shown);
}).observe(results);

document
  .getElementById("probe")
  ?.replaceChildren(
    patterns(),
    element("div", { class: "bar" }, what, cancel, again),
    knobs.form,
    status,
    outdated,
    results,
    ran,
  );
send({ kind: "ready" });
