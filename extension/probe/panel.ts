/** The probe's panel beside the editor: one, that shows one model at a time. */

import * as vscode from "vscode";
import { withoutLinks } from "../message";
import type { ProbeAnswer } from "../protocol";
import { openLine } from "../report/open";
import { pageFor } from "../report/page_text";
import { NotRunning, type Server } from "../server";
import { readSettings } from "../settings";
import { askProbe, hasAsked, joined } from "./ask";
import { findingsFor } from "./findings";
import { insertMissing } from "./insert";
import { alternatives, asOptions, type Knobs, UNTURNED, variantOf } from "./knobs";
import type { FromPage, Part, Subject, ToPage } from "./page_messages";
import { codeOf, placesIn, type Texts, textsOf } from "./places";
import { type Said, stageInWords } from "./stages";
import type { Model } from "./targets";

const VIEW = "remat.probe";

/** What the page shows, and the files it is about as they were read then. */
export interface Shown {
  readonly answer: ProbeAnswer;
  readonly knobs: Knobs;
  readonly texts: Texts;
}

export class ProbePanel implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private model: Model | undefined;
  private knobs: Knobs = UNTURNED;
  /** What is wanted first, until the answer is whole. */
  private first: Part | null = null;
  private shown: Shown | undefined;
  /** Why there is no answer at all. */
  private problem: ToPage | undefined;
  private running: vscode.CancellationTokenSource | undefined;
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
    this.running?.cancel();
    this.model = model;
    this.knobs = { ...UNTURNED, gpu: readSettings().gpu };
    this.shown = undefined;
    await this.again(first);
  }

  dispose(): void {
    this.answers.dispose();
    this.watching.dispose();
    this.panel?.dispose();
  }

  private async again(first: Part | null = null): Promise<void> {
    const { model } = this;
    if (!model) return;
    this.first = first;
    await saveAll(model.folder);
    await this.server.start(); // which says the interpreter
    await this.open();
    this.tell({ kind: "begun", subject: this.subject(model), knobs: this.knobs, first });
    const notification = {
      location: vscode.ProgressLocation.Notification,
      title: withoutLinks(`Remat probes ${model.name}`),
      cancellable: true,
    };
    await vscode.window.withProgress(notification, (progress, token) =>
      this.run((said) => progress.report({ message: withoutLinks(said.words), increment: said.increment }), token),
    );
  }

  /** Asks for the variant that is wanted, then for those to compare it with. A later question takes its place. */
  private async run(say: (said: Said) => void, cancel?: vscode.CancellationToken): Promise<void> {
    const { model, knobs } = this;
    if (!model) return;
    this.running?.cancel();
    const running = new vscode.CancellationTokenSource();
    this.running = running;
    const cancelling = cancel?.onCancellationRequested(() => running.cancel());
    const isLatest = () => this.running === running;
    this.problem = undefined;
    this.tell({ kind: "running", progress: null });
    try {
      for await (const answer of this.answersFor(model, knobs, say, running.token)) {
        if (running.token.isCancellationRequested) break;
        await this.show(answer, knobs);
      }
    } catch (error) {
      if (isLatest() && !running.token.isCancellationRequested) this.fail(error);
    } finally {
      cancelling?.dispose();
      if (isLatest()) {
        this.running = undefined;
        this.first = null;
        this.tell({ kind: "idle", cancelled: running.token.isCancellationRequested });
      }
    }
  }

  private async *answersFor(model: Model, knobs: Knobs, say: (said: Said) => void, token: vscode.CancellationToken) {
    const others = alternatives(knobs);
    const total = 1 + others.length;
    const hear = (before: number) => (progress: Parameters<typeof stageInWords>[0]) => {
      if (token.isCancellationRequested) return;
      const whole = { ...progress, done: before + progress.done, of: total };
      say(stageInWords(whole));
      this.tell({ kind: "running", progress: whole });
    };
    const first = await askProbe(this.server, model, knobs, [variantOf(knobs)], hear(0), token);
    yield first;
    if (hasAsked(first, knobs)) yield joined(first, await askProbe(this.server, model, knobs, others, hear(1), token));
  }

  private async show(answer: ProbeAnswer, knobs: Knobs): Promise<void> {
    const texts = await textsOf(answer);
    if (knobs !== this.knobs) return; // another question was asked meanwhile
    this.shown = { answer, knobs, texts };
    this.showAgain();
    this.answers.fire(this.shown);
  }

  private showAgain(): void {
    const { shown, model } = this;
    if (!shown || !model) return;
    const { answer, knobs, texts } = shown;
    this.tell({
      kind: "answer",
      answer,
      knobs,
      subject: this.subject(model),
      code: codeOf(answer, texts),
      findings: findingsFor(answer, model),
    });
  }

  private changed({ uri }: vscode.TextDocument): void {
    if (this.shown?.texts.has(uri.fsPath)) this.tellOutdated();
  }

  private tellOutdated(): void {
    const { texts } = this.shown ?? {};
    const changed = vscode.workspace.textDocuments.filter((document) => {
      const { uri } = document;
      const was = uri.scheme === "file" ? texts?.get(uri.fsPath) : undefined;
      return was !== undefined && was !== document.getText();
    });
    this.tell({ kind: "outdated", files: changed.map(({ uri }) => vscode.workspace.asRelativePath(uri)) });
  }

  private fail(error: unknown): void {
    const why =
      error instanceof NotRunning
        ? error.message
        : `Remat's server did not answer: ${error instanceof Error ? error.message : String(error)}`;
    this.problem = { kind: "problem", why };
    this.tell(this.problem);
  }

  /** What is run, before it is; the answer says it again as it was. */
  private subject({ name, target, folder }: Model): Subject {
    const choice = this.server.facts().choice;
    const python = choice?.interpreters.get(folder.toString()) ?? [...(choice?.interpreters.values() ?? [])][0];
    const shown = target.startsWith(`${folder.fsPath}/`) ? target.slice(folder.fsPath.length + 1) : target;
    const command = ["remat", "probe", ...[shown, ...asOptions(this.knobs)].map(quoted)].join(" ");
    return { name, command, python: python ?? "the .venv nearest to the file, else the Python on PATH" };
  }

  /** Beside the editor, or where the user has moved it. */
  private async open(): Promise<void> {
    if (this.panel) return this.panel.reveal(undefined, true);
    const column = vscode.window.activeTextEditor ? vscode.ViewColumn.Beside : vscode.ViewColumn.Active;
    const panel = vscode.window.createWebviewPanel(
      VIEW,
      "Memory probe",
      { viewColumn: column, preserveFocus: true },
      {
        enableScripts: true,
        enableFindWidget: true,
        localResourceRoots: [],
      },
    );
    this.panel = panel;
    panel.webview.onDidReceiveMessage((message: FromPage) => void this.answer(message));
    panel.onDidDispose(() => this.closed());
    panel.webview.html = await pageFor(this.root, { name: "probe", title: "Memory probe" });
  }

  private closed(): void {
    this.running?.cancel();
    this.panel = undefined;
    this.shown = undefined;
    this.answers.fire(undefined);
  }

  private tell(message: ToPage): void {
    void this.panel?.webview.postMessage(message);
  }

  /** A page that was hidden begins anew. */
  private tellAll(): void {
    if (!this.model) return;
    this.tell({ kind: "begun", subject: this.subject(this.model), knobs: this.knobs, first: this.first });
    this.showAgain();
    if (this.shown) this.tellOutdated();
    if (this.problem) this.tell(this.problem);
    if (this.running) this.tell({ kind: "running", progress: null });
  }

  private async answer(message: FromPage): Promise<void> {
    switch (message.kind) {
      case "ready":
        return this.tellAll();
      case "ask":
        this.knobs = message.knobs;
        return this.run(() => undefined);
      case "select":
        return this.select(message.knobs);
      case "again":
        return this.again();
      case "cancel":
        return this.running?.cancel();
      case "open":
        return this.openPlace(message.path, message.line);
      case "insert":
        return this.insert(message.failure);
      case "copyCommand":
        if (this.model) await vscode.env.clipboard.writeText(this.subject(this.model).command);
        return this.tell({ kind: "said", about: "command", words: "Copied." });
      case "showLogs":
        return void (await vscode.commands.executeCommand("remat.showLogs"));
      case "restart":
        await vscode.commands.executeCommand("remat.restart");
        return this.again();
    }
  }

  private select(knobs: Knobs): void {
    if (!this.shown) return;
    const { answer, texts } = this.shown;
    this.knobs = knobs;
    this.shown = { answer, knobs, texts };
    this.answers.fire(this.shown);
  }

  /** Only what the answer itself names. */
  private async openPlace(path: string, line: number): Promise<void> {
    const { shown, panel, model } = this;
    const places = shown && model ? [...placesIn(shown.answer), ...findingsFor(shown.answer, model)] : [];
    const isNamed = places.some((place) => place.path === path && place.line === line);
    if (panel && isNamed) await openLine(panel, vscode.Uri.file(path).toString(), line);
  }

  private async insert(index: number): Promise<void> {
    const failure = this.shown?.answer.failures[index];
    if (!failure || !this.panel || !this.model) return;
    const words = await insertMissing(failure, this.model, this.panel);
    this.tell({ kind: "said", about: `failure-${index}`, words });
  }
}

/** The probe reads files. */
async function saveAll(folder: vscode.Uri): Promise<void> {
  for (const document of vscode.workspace.textDocuments) {
    const isInside = document.uri.scheme === "file" && document.uri.path.startsWith(`${folder.path}/`);
    if (document.isDirty && isInside && document.languageId === "python") await document.save();
  }
}

function quoted(word: string): string {
  return /^[\w./:@%+,=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
