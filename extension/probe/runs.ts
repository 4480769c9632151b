/** What is asked of the server about a model, one thing at a time: a later question takes the place of an earlier one. */

import * as vscode from "vscode";
import type { ProbeProgress } from "../protocol";

/** Does it; `hear` is told how far it is. */
export type Work = (cancel: vscode.CancellationToken, hear: (progress: ProbeProgress) => void) => Promise<void>;

export interface Hearer {
  /** `null`: it has begun. */
  heard(progress: ProbeProgress | null): void;
  failed(error: unknown): void;
  ended(cancelled: boolean): void;
}

export class Runs {
  private running: vscode.CancellationTokenSource | undefined;

  constructor(private readonly hearer: Hearer) {}

  get isRunning(): boolean {
    return this.running !== undefined;
  }

  cancel(): void {
    this.running?.cancel();
  }

  async run(work: Work, cancel?: vscode.CancellationToken): Promise<void> {
    this.cancel();
    const running = new vscode.CancellationTokenSource();
    this.running = running;
    const cancelling = cancel?.onCancellationRequested(() => running.cancel());
    const isLatest = () => this.running === running;
    const isWanted = () => !running.token.isCancellationRequested;
    this.hearer.heard(null);
    try {
      await work(running.token, (progress) => isWanted() && this.hearer.heard(progress));
    } catch (error) {
      if (isLatest() && isWanted()) this.hearer.failed(error);
    } finally {
      cancelling?.dispose();
      if (isLatest()) {
        this.running = undefined;
        this.hearer.ended(!isWanted());
      }
    }
  }
}
