/** The commands that ran in terminals, with the ends of what they printed. Needs VS Code's shell integration. */

import * as vscode from "vscode";
import { Ends } from "./ends";
import { withoutMarks } from "./marks";

export interface Execution {
  readonly terminal: vscode.Terminal;
  readonly command: string;
  readonly cwd: string | null;
  /** Undefined while it runs, and where the shell did not say. */
  readonly exitCode: number | undefined;
  /** What it has printed so far. */
  output(): string;
}

/** That many failed commands can be diagnosed later; what the others printed is forgotten when they end. */
const KEPT = 5;
/** The last output may arrive after the news that the command has ended. */
const LATE_OUTPUT_MS = 1_000;

interface Reading {
  readonly terminal: vscode.Terminal;
  readonly ends: Ends;
  readonly done: Promise<void>;
}

export class Executions implements vscode.Disposable {
  private readonly running = new Map<vscode.TerminalShellExecution, Reading>();
  private failed: Execution[] = [];
  private readonly failing = new vscode.EventEmitter<Execution>();
  private readonly subscriptions: vscode.Disposable[];
  readonly onFailed = this.failing.event;

  constructor() {
    this.subscriptions = [
      vscode.window.onDidStartTerminalShellExecution(({ terminal, execution }) => this.started(terminal, execution)),
      vscode.window.onDidEndTerminalShellExecution(({ execution, exitCode }) => void this.ended(execution, exitCode)),
      vscode.window.onDidCloseTerminal((terminal) => this.forget(terminal)),
      this.failing,
    ];
  }

  /** The command that runs in `terminal` now. */
  runningIn(terminal: vscode.Terminal): Execution | undefined {
    for (const [execution, reading] of this.running) {
      if (reading.terminal === terminal) return describe(execution, reading, undefined);
    }
    return undefined;
  }

  /** The last command that failed: in `terminal`, or in any. */
  lastFailed(terminal?: vscode.Terminal): Execution | undefined {
    return this.failed.filter((execution) => !terminal || execution.terminal === terminal).at(-1);
  }

  dispose(): void {
    this.running.clear();
    this.failed = [];
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  private started(terminal: vscode.Terminal, execution: vscode.TerminalShellExecution): void {
    const ends = new Ends();
    // A stream that breaks leaves what it gave.
    const done = readInto(ends, execution.read()).catch(() => undefined);
    this.running.set(execution, { terminal, ends, done });
  }

  private async ended(execution: vscode.TerminalShellExecution, exitCode: number | undefined): Promise<void> {
    const reading = this.running.get(execution);
    if (!reading) return;
    this.running.delete(execution);
    if (exitCode === undefined || exitCode === 0) return;
    const described = describe(execution, reading, exitCode);
    this.failed = [...this.failed, described].slice(-KEPT);
    await Promise.race([reading.done, new Promise((resolve) => setTimeout(resolve, LATE_OUTPUT_MS))]);
    if (this.failed.includes(described)) this.failing.fire(described); // else its terminal was closed meanwhile
  }

  private forget(terminal: vscode.Terminal): void {
    for (const [execution, reading] of this.running) {
      if (reading.terminal === terminal) this.running.delete(execution);
    }
    this.failed = this.failed.filter((execution) => execution.terminal !== terminal);
  }
}

/** Starts reading at once: what is printed before that is lost. */
async function readInto(ends: Ends, stream: AsyncIterable<string>): Promise<void> {
  for await (const piece of stream) ends.add(piece);
}

function describe(
  execution: vscode.TerminalShellExecution,
  { terminal, ends }: Reading,
  exitCode: number | undefined,
): Execution {
  return {
    terminal,
    command: execution.commandLine.value.trim(),
    cwd: execution.cwd?.scheme === "file" ? execution.cwd.fsPath : null,
    exitCode,
    output: () => withoutMarks(ends.text()),
  };
}
