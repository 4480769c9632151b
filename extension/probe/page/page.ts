/** The script of the probe's page: shows what the extension sends, asks for what the user turns. */

import type { ProbeAnswer, ProbeProgress, Snapshot } from "../../protocol";
import { button, type Child, element } from "../../report/page/elements";
import { answerTo, section } from "../../report/page/sections";
import { type Knobs, sameStep, variantOf, wayNamed } from "../knobs";
import type { VariantResult } from "../messages";
import type { Figures, FromPage, Part, Subject, ToPage } from "../page_messages";
import { stageInWords } from "../stages";
import { advice } from "./advice";
import { byCategory, byLine, byModule } from "./breakdown";
import { patterns } from "./categories";
import { comparedWith } from "./compared";
import { controls } from "./controls";
import { effect } from "./effect";
import { failuresOf } from "./failures";
import { headline, tiers } from "./headline";
import { measurement } from "./measured";
import { chosenCard } from "./need";
import { recordedRun } from "./recorded";
import { timelineOf } from "./timeline";
import { comparison } from "./variants";

declare function acquireVsCodeApi(): { postMessage(message: unknown): void };

const editor = acquireVsCodeApi();
const send = (message: FromPage) => editor.postMessage(message);

const open = (path: string, line: number) => send({ kind: "open", path, line });
const what = element("p", { class: "source" });
const status = element("p", { id: "status", role: "status" });
const cancel = button("Cancel", () => send({ kind: "cancel" }), { class: "secondary", hidden: true });
const again = button("Probe again", () => send({ kind: "again" }), { class: "secondary" });
const outdated = element("p", { id: "outdated", role: "status" });
const compare = button("Compare memory before and after", () => send({ kind: "compare" }), { hidden: true });
const results = element("div", { id: "results" });
const ran = element("div", {});
const knobs = controls(turned, () => results.classList.add("stale"));
let shown: Figures | undefined;
let recorded: Snapshot | undefined;
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
      return show(data.figures, data.subject);
    case "outdated":
      return tellOutdated(data.files);
    case "problem":
      return results.replaceChildren(...filled(problem(data.why)));
    case "said":
      return say(data.about, data.words);
    case "recorded":
      return record(data.snapshot);
  }
});

function begin(subject: Subject, turnedTo: Knobs, first: Part | null): void {
  knobs.form.hidden = false;
  wanted = first;
  shown = undefined;
  recorded = undefined;
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

/** In place of a model. */
function record(snapshot: Snapshot): void {
  shown = undefined;
  recorded = snapshot;
  knobs.form.hidden = true;
  cancel.hidden = again.hidden = true;
  status.textContent = "";
  tellOutdated([]);
  what.replaceChildren("Memory snapshot ", element("code", {}, snapshot.name));
  results.classList.remove("stale");
  results.removeAttribute("aria-busy");
  results.replaceChildren(...filled(recordedRun(snapshot, Math.max(results.clientWidth, 360), open)));
  ran.replaceChildren();
}

function show(now: Figures, subject?: Subject): void {
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

function failed({ answer, code }: Figures): Child[] {
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

function figures(now: Figures, variant: VariantResult): Child[] {
  const { answer, knobs: of, code, findings } = now;
  const usable = chosenCard(answer)?.usableBytes ?? null;
  const width = Math.max(results.clientWidth, 360);
  const select = (name: string) => {
    const checkpointing = wayNamed(name, of);
    if (checkpointing !== undefined) turned({ ...of, checkpointing });
  };
  return [
    headline(answer, variant, of.gpu, now.before ? undefined : before),
    tiers(variant),
    comparedWith(now),
    section("timeline", "Along two steps", timelineOf(variant.timeline, usable, width)),
    section("compare", "Ways to checkpoint", ...comparison(now, variant, { width, select, send })),
    section("advice", "What lowers the peak?", ...advice(now, turned, send)),
    section("effect", "Did checkpointing take effect?", ...effect(answer, variant, findings, open)),
    section("measure", "Measured on this machine", ...measurement(now, send)),
    section("breakdown", "Where it goes", byCategory(variant), byLine(variant, code, open), byModule(variant)),
    section("assumptions", "Assumptions", assumptions(variant)),
  ];
}

function assumptions({ assumptions: all }: VariantResult): HTMLElement {
  if (all.length === 0) return element("p", {}, "None.");
  return element("ul", {}, ...all.map((one) => element("li", {}, one)));
}

function tellOutdated(files: readonly string[]): void {
  const verb = files.length === 1 ? "has" : "have";
  outdated.textContent = files.length > 0 ? `⚠ ${files.join(", ")} ${verb} changed since.` : "";
  compare.hidden = files.length === 0 || !shown;
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
  else if (recorded) record(recorded);
}).observe(results);

document
  .getElementById("probe")
  ?.replaceChildren(
    patterns(),
    element("div", { class: "bar" }, what, cancel, again),
    knobs.form,
    status,
    element("div", { class: "bar changed" }, outdated, compare),
    results,
    ran,
  );
send({ kind: "ready" });
