/** The probe's panel beside the editor: one, that shows one model at a time. */

import * as vscode from "vscode";
import { withoutLinks } from "../message";
import type { ProbeAnswer, Snapshot } from "../protocol";
import { openPage } from "../report/page_text";
import { NotRunning, type Server } from "../server";
import { readSettings } from "../settings";
import { act } from "./act";
import { askAdvice, askMeasurement, askProbe, hasAsked, joined, type Question } from "./ask";
import { changedSince, saveAll } from "./files";
import { findingsFor } from "./findings";
import { alternatives, type Knobs, nameOfWay, sameStep, UNTURNED, variantOf } from "./knobs";
import { AS_WRITTEN } from "./messages";
import type { Before, FromPage, Part, ToPage } from "./page_messages";
import { codeOf, textsOf } from "./places";
import { Runs } from "./runs";
import { beforeOf, type Shown } from "./shown";
import { type Said, stageInWords } from "./stages";
import { subjectOf } from "./subject";
import { fileOfModel, type Model, stillThere } from "./targets";

const VIEW = "remat.probe";

/** The progress that the user sees in a notification, and its button to cancel. */
interface Notified {
  readonly say: (said: Said) => void;
  readonly token: vscode.CancellationToken;
}

export class ProbePanel implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private model: Model | undefined;
  private knobs: Knobs = UNTURNED;
  /** What is wanted first, until the answer is whole. */
  private first: Part | null = null;
  private shown: Shown | undefined;
  /** In place of a model. */
  private recorded: Snapshot | undefined;
  /** Why there is no answer at all. */
  private problem: ToPage | undefined;
  private readonly runs = new Runs({
    heard: (progress) => {
      if (progress === null) this.problem = undefined;
      this.tell({ kind: "running", progress });
    },
    failed: (error) => this.fail(error),
    ended: (cancelled) => {
      this.first = null;
      this.tell({ kind: "idle", cancelled });
    },
  });
  private readonly answers = new vscode.EventEmitter<Shown | undefined>();
  private readonly watching = vscode.workspace.onDidChangeTextDocument(({ document }) => this.changed(document));

  /** Fires with each answer, and with none when the panel is closed. */
  readonly onAnswer = this.answers.event;

  constructor(
    private readonly root: vscode.Uri,
    private readonly server: Server,
  ) {}

  /** Probes `model` as it is written, with the progress where the user sees it, and shows `first` first. */
  async probe(model: Model, first: Part | null): Promise<void> {
    this.runs.cancel();
    this.model = model;
    this.knobs = { ...UNTURNED, gpu: readSettings().gpu };
    this.shown = undefined;
    await this.again(first);
  }

  /** Probes the same as it is written now, beside what it needed before. False where nothing was probed before. */
  async compare(): Promise<boolean> {
    const { shown } = this;
    const written = shown?.answer.variants.find(({ name }) => name === nameOfWay(AS_WRITTEN));
    if (!shown || !written) return false;
    const knobs = { ...shown.knobs, checkpointing: AS_WRITTEN };
    this.knobs = knobs;
    await this.again(null, { variant: written, knobs });
    return true;
  }

  /** Shows what a real run recorded. */
  async record(snapshot: Snapshot): Promise<void> {
    this.runs.cancel();
    this.model = undefined;
    this.shown = undefined;
    this.problem = undefined;
    this.answers.fire(undefined);
    this.recorded = snapshot;
    await this.open();
    this.tell({ kind: "recorded", snapshot });
  }

  dispose(): void {
    this.answers.dispose();
    this.watching.dispose();
    this.panel?.dispose();
  }

  private async again(first: Part | null = null, before: Before | null = null): Promise<void> {
    if (!this.model) return;
    this.first = first;
    this.recorded = undefined;
    await saveAll(this.model.folder);
    await this.server.start(); // which says the interpreter
    const model = await stillThere(this.model, this.server);
    this.model = model;
    await this.open();
    this.tell({ kind: "begun", subject: subjectOf(model, this.knobs, this.server), knobs: this.knobs, first });
    const notification = {
      location: vscode.ProgressLocation.Notification,
      title: withoutLinks(`Remat probes ${model.name}`),
      cancellable: true,
    };
    await vscode.window.withProgress(notification, (progress, token) => {
      const say = (said: Said) => progress.report({ message: withoutLinks(said.words), increment: said.increment });
      return this.run((question) => this.probeAll(question, before), { say, token });
    });
  }

  private async run(work: (question: Question) => Promise<void>, notified?: Notified): Promise<void> {
    const { model, knobs, server } = this;
    if (!model) return;
    await this.runs.run((cancel, hear) => {
      const tell: Question["hear"] = (progress) => {
        notified?.say(stageInWords(progress));
        hear(progress);
      };
      return work({ server, model, knobs, hear: tell, cancel });
    }, notified?.token);
  }

  /** Asks for the variant that is wanted, then for those to compare it with. */
  private async probeAll(question: Question, before: Before | null): Promise<void> {
    const { knobs, hear, cancel } = question;
    const others = alternatives(knobs);
    const from = (done: number): Question => ({
      ...question,
      hear: (progress) => hear({ ...progress, done: done + progress.done, of: 1 + others.length }),
    });
    const first = await askProbe(from(0), [variantOf(knobs)]);
    if (cancel.isCancellationRequested) return;
    await this.show(first, question, before);
    if (!hasAsked(first, knobs)) return;
    const more = await askProbe(from(1), others);
    if (!cancel.isCancellationRequested) await this.show(joined(first, more), question, before);
  }

  private async show(answer: ProbeAnswer, { knobs, model }: Question, before: Before | null): Promise<void> {
    const texts = await textsOf(answer, fileOfModel(model));
    if (knobs !== this.knobs) return; // another question was asked meanwhile
    this.shown = { answer, knobs, texts, before, advised: null, measurement: null, planned: null };
    this.showAgain();
    this.answers.fire(this.shown);
  }

  private showAgain(): void {
    const { shown, model } = this;
    if (!shown || !model) return;
    const { texts, ...figures } = shown;
    const { answer } = figures;
    const more = { code: codeOf(answer, texts), findings: findingsFor(answer, model) };
    const subject = subjectOf(model, figures.knobs, this.server);
    this.tell({ kind: "answer", figures: { ...figures, ...more }, subject });
    this.tellOutdated();
  }

  private changed({ uri }: vscode.TextDocument): void {
    if (this.shown?.texts.has(uri.fsPath)) this.tellOutdated();
  }

  private tellOutdated(): void {
    this.tell({ kind: "outdated", files: this.shown ? changedSince(this.shown.texts) : [] });
  }

  private fail(error: unknown): void {
    const why =
      error instanceof NotRunning
        ? error.message
        : `Remat's server did not answer: ${error instanceof Error ? error.message : String(error)}`;
    this.problem = { kind: "problem", why };
    this.tell(this.problem);
  }

  /** Beside the editor, or where the user has moved it. */
  private async open(): Promise<void> {
    if (this.panel) return this.panel.reveal(undefined, true);
    const page = { view: VIEW, name: "probe", title: "Memory probe", preserveFocus: true };
    const hear = (message: FromPage) => this.answer(message);
    const { panel, loaded } = openPage(this.root, page, hear, () => this.closed());
    this.panel = panel;
    await loaded;
  }

  private closed(): void {
    this.runs.cancel();
    this.panel = undefined;
    this.shown = undefined;
    this.answers.fire(undefined);
  }

  private tell(message: ToPage): void {
    void this.panel?.webview.postMessage(message);
  }

  /** A page that was hidden begins anew. */
  private tellAll(): void {
    if (this.recorded) this.tell({ kind: "recorded", snapshot: this.recorded });
    if (!this.model) return;
    const subject = subjectOf(this.model, this.knobs, this.server);
    this.tell({ kind: "begun", subject, knobs: this.knobs, first: this.first });
    this.showAgain();
    if (this.problem) this.tell(this.problem);
    if (this.runs.isRunning) this.tell({ kind: "running", progress: null });
  }

  private async answer(message: FromPage): Promise<void> {
    switch (message.kind) {
      case "ready":
        return this.tellAll();
      case "ask":
        this.knobs = message.knobs;
        return this.run((question) => this.probeAll(question, beforeOf(this.shown, question.knobs)));
      case "select":
        return this.select(message.knobs);
      case "again":
        return this.again();
      case "compare":
        return void (await this.compare());
      case "advise":
        return this.run((question) => this.advise(question));
      case "measure":
        return this.run((question) => this.measure(question));
      case "cancel":
        return this.runs.cancel();
      case "showLogs":
        return void (await vscode.commands.executeCommand("remat.showLogs"));
      case "restart":
        await vscode.commands.executeCommand("remat.restart");
        return this.again();
      default:
        return this.act(message);
    }
  }

  private async act(message: FromPage): Promise<void> {
    const { panel, server, model, shown, recorded } = this;
    if (!panel) return;
    const command = model && subjectOf(model, this.knobs, server).command;
    const say = (about: string, words: string) => this.tell({ kind: "said", about, words });
    const planned = await act(message, { panel, server, model, shown, recorded, command, say });
    if (!planned || !shown) return;
    this.shown = { ...shown, planned };
    this.showAgain();
  }

  private select(knobs: Knobs): void {
    if (!this.shown) return;
    this.knobs = knobs;
    this.shown = { ...this.shown, knobs };
    this.answers.fire(this.shown);
  }

  private async advise(question: Question): Promise<void> {
    const answer = await askAdvice(question);
    this.add({ advised: { answer, knobs: question.knobs } }, question);
  }

  private async measure(question: Question): Promise<void> {
    const found = await askMeasurement(question);
    if (typeof found !== "string") return this.add({ measurement: found }, question);
    if (!question.cancel.isCancellationRequested) this.tell({ kind: "said", about: "measure", words: found });
  }

  private add(more: Partial<Shown>, { knobs, cancel }: Question): void {
    if (!this.shown || cancel.isCancellationRequested || !sameStep(knobs, this.shown.knobs)) return;
    this.shown = { ...this.shown, ...more };
    this.showAgain();
  }
}
