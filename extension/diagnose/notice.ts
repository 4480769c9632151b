/** One message when a command has failed and Remat knows why. */

import * as vscode from "vscode";
import { showMessage } from "../message";
import type { Diagnosis } from "../protocol";
import type { Report } from "../report/report";
import type { Server } from "../server";
import { readSettings } from "../settings";
import type { Execution, Executions } from "../terminal/executions";
import { ask, inOneLine } from "./ask";
import { ofExecution } from "./sources";

/** Ctrl+C, as shells report it. */
const INTERRUPTED = new Set([130, -1073741510, 3221225786]);
/** Output without any of these is not of a training run: the server is not started for it. */
const WORTH_ASKING =
  /Traceback \(most recent|torch|\brank\b|\bloss\b|CUDA|NCCL|\bKilled\b|[Ss]egmentation fault|srun:|slurm/;
/** Kinds that any Python program can end with. They are news only where several ranks or torch are involved. */
const OF_ANY_PROGRAM = new Set(["code.user_exception", "config.cli_argument"]);
const OF_TRAINING = /\b(?:torch|transformers|accelerate|lightning|deepspeed|peft|datasets)\b/;
/** Commands that fail one after the other are one message, about the last. */
const AT_MOST_EVERY_MS = 5_000;
const SHOW = "Show diagnosis";

interface News {
  readonly execution: Execution;
  readonly diagnosis: Diagnosis;
}

export function noticeFailures(
  executions: Executions,
  server: Server,
  report: Report,
  log: vscode.LogOutputChannel,
): vscode.Disposable {
  const stopped = new vscode.CancellationTokenSource();
  const show = spaced(({ execution, diagnosis }: News) => void offer(execution, diagnosis, report));
  const watching = executions.onFailed(async (execution) => {
    if (!isWorthAsking(execution)) return;
    try {
      const diagnosis = await ask(server, ofExecution(execution), stopped.token);
      if (isNews(diagnosis, execution)) show({ execution, diagnosis });
    } catch (error) {
      // Nobody asked for this one, so nobody is told; the server's own failures are.
      log.info(`${execution.command} failed and was not diagnosed: ${String(error)}`);
    }
  });
  return vscode.Disposable.from(watching, stopped, { dispose: () => stopped.cancel() });
}

function isWorthAsking(execution: Execution): boolean {
  const { enable, diagnoseFailedCommands, showNotifications } = readSettings();
  if (!enable || !diagnoseFailedCommands || showNotifications === "off") return false;
  return !INTERRUPTED.has(execution.exitCode ?? 0) && WORTH_ASKING.test(execution.output());
}

function isNews({ failed, cause, rank, followed }: Diagnosis, execution: Execution): boolean {
  if (!failed || !cause) return false;
  if (!OF_ANY_PROGRAM.has(cause.id)) return true;
  return rank !== null || followed.length > 0 || OF_TRAINING.test(execution.output());
}

async function offer(execution: Execution, diagnosis: Diagnosis, report: Report): Promise<void> {
  const message = `${inOneLine(execution.command)}: ${diagnosis.headline}`;
  if ((await showMessage("warning", message, SHOW)) === SHOW) {
    await report.show(ofExecution(execution), diagnosis);
  }
}

/** Calls `act` at once, then at most every few seconds, with the last value given meanwhile. */
function spaced<T>(act: (value: T) => void): (value: T) => void {
  let next = 0;
  let waiting: { value: T } | undefined;
  return (value) => {
    const now = Date.now();
    if (waiting) waiting.value = value;
    else if (now >= next) {
      next = now + AT_MOST_EVERY_MS;
      act(value);
    } else {
      waiting = { value };
      setTimeout(() => {
        const last = waiting;
        waiting = undefined;
        next = Date.now() + AT_MOST_EVERY_MS;
        if (last) act(last.value);
      }, next - now);
    }
  };
}
