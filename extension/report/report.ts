/** The report beside the editor: one panel, that shows one diagnosis at a time. */

import * as vscode from "vscode";
import { ask, fitting } from "../diagnose/ask";
import type { DiagnoseParams, Diagnosis } from "../protocol";
import { NotRunning, type Server } from "../server";
import { leftOut } from "../terminal/ends";
import type { Executions } from "../terminal/executions";
import { act } from "./act";
import type { FromPage, ToPage } from "./messages";
import { openPage } from "./page_text";

const VIEW = "remat.report";

/** What is on the page: the log it came from is kept to be asked about again. */
export interface Shown {
  /** Counted from 1: a button of the page says which report it is on. */
  readonly number: number;
  readonly log: DiagnoseParams;
  readonly diagnosis: Diagnosis;
}

export class Report implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  /** The last message that says what the page shows: a page that was hidden starts anew. */
  private last: ToPage | undefined;
  private shown: Shown | undefined;
  private reports = 0;
  private asked: DiagnoseParams | undefined;
  /** The log waits for a server, which the user has to bring about. */
  private waiting = false;
  private asking: vscode.CancellationTokenSource | undefined;
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly root: vscode.Uri,
    private readonly server: Server,
    private readonly executions: Executions,
  ) {
    this.subscriptions = [
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.showAgain()),
      server.onRunning(() => void this.askAgain()),
    ];
  }

  /** Asks the server and shows what it says, or why it says nothing. A later question takes the place of this one. */
  async diagnose(given: DiagnoseParams): Promise<void> {
    const log = fitting(given);
    this.asking?.cancel();
    const asking = new vscode.CancellationTokenSource();
    this.asking = asking;
    this.asked = log;
    this.shown = undefined;
    this.waiting = false;
    await this.open();
    this.tell({ kind: "busy", name: log.name });
    try {
      const diagnosis = await ask(this.server, log, asking.token);
      if (!asking.token.isCancellationRequested) await this.show(log, diagnosis);
    } catch (error) {
      if (asking.token.isCancellationRequested) return;
      this.waiting = error instanceof NotRunning;
      this.tell({ kind: "failed", name: log.name, why: inWords(error) });
    }
  }

  async show(log: DiagnoseParams, diagnosis: Diagnosis): Promise<void> {
    this.asking?.cancel();
    this.asked = log;
    this.waiting = false;
    this.reports += 1;
    this.shown = { number: this.reports, log, diagnosis };
    await this.open();
    this.showAgain();
  }

  /** Not where the server broke off its answer: it might again. */
  private async askAgain(): Promise<void> {
    if (this.waiting && this.panel && this.asked) await this.diagnose(this.asked);
  }

  private showAgain(): void {
    if (!this.shown) return;
    const { number, log, diagnosis } = this.shown;
    const missing = (log.text && leftOut(log.text)) || null;
    this.tell({ kind: "report", number, diagnosis, mayRun: vscode.workspace.isTrusted, leftOut: missing });
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
    this.panel?.dispose();
  }

  /** Beside the editor, or where the user has moved it. */
  private async open(): Promise<void> {
    if (this.panel) return this.panel.reveal();
    const page = { view: VIEW, name: "report", title: "Diagnosis" };
    const hear = (message: FromPage) => this.answer(message);
    const { panel, loaded } = openPage(this.root, page, hear, () => this.closed());
    this.panel = panel;
    await loaded;
  }

  private closed(): void {
    this.asking?.cancel();
    this.panel = undefined;
    this.shown = undefined;
    this.last = undefined;
  }

  private tell(message: ToPage): void {
    if (message.kind !== "said") this.last = message;
    void this.panel?.webview.postMessage(message);
  }

  private async answer(message: FromPage): Promise<void> {
    if (message.kind === "ready") {
      if (this.last) this.tell(this.last);
    } else if (message.kind === "restart") {
      await vscode.commands.executeCommand("remat.restart");
      if (this.last?.kind === "failed" && this.asked) await this.diagnose(this.asked);
    } else if (message.kind === "showLogs") {
      await vscode.commands.executeCommand("remat.showLogs");
    } else if (this.shown?.number === message.report && this.panel) {
      const { report } = message;
      const again = await act(message, this.shown, this.panel, this.executions, (about, words, next) =>
        this.tell({ kind: "said", report, about, words, ...(next ? { next } : {}) }),
      );
      if (again) await this.diagnose(again);
    }
  }
}

function inWords(error: unknown): string {
  if (error instanceof NotRunning) return error.message;
  return `Remat's server did not answer: ${error instanceof Error ? error.message : String(error)}`;
}
