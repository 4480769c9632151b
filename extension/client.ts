/** The language client, silent on its own account: what pops up is decided in `notify`. */

import type * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  MessageType,
  RevealOutputChannelOn,
  type ServerOptions,
  ShowMessageNotification,
} from "vscode-languageclient/node";
import type { Choice } from "./choice";
import type { Level } from "./message";
import { notify } from "./notify";
import { PROBE_PROGRESS, type ProbeProgress } from "./protocol";
import { forServer, readSettings } from "./settings";
import { PYTHON_FILES } from "./status";

/** The library pops up its own message on every failed start; ours would be the second. */
class SilentClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

export function createClient(
  start: ServerOptions,
  choice: Choice,
  log: vscode.LogOutputChannel,
  hear: (progress: ProbeProgress) => void,
): LanguageClient {
  const client = new SilentClient("remat", "Remat", start, options(choice, log));
  client.onNotification(ShowMessageNotification.type, ({ type, message }) => {
    void notify(log, level(type), message);
  });
  client.onNotification(PROBE_PROGRESS, hear);
  return client;
}

function options(choice: Choice, log: vscode.LogOutputChannel): LanguageClientOptions {
  return {
    documentSelector: PYTHON_FILES,
    outputChannel: log,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    initializationOptions: () => initializationOptions(choice),
    initializationFailedHandler: () => false,
    // `server` watches the process itself, and starts the next one.
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
    },
    stdioOptions: {
      stdout: () => undefined,
      stderr: (lines) => lines.on("data", (chunk) => log.info(String(chunk).trimEnd())),
    },
  };
}

/** `interpreter` for a single folder; `interpreters` has all folders', by URI. */
function initializationOptions(choice: Choice): object {
  const [first, ...more] = choice.interpreters.values();
  return {
    interpreter: more.length === 0 ? (first ?? null) : null,
    interpreters: Object.fromEntries(choice.interpreters),
    settings: forServer(readSettings()),
    probe: true,
  };
}

function level(type: MessageType): Level {
  if (type === MessageType.Error) return "error";
  return type === MessageType.Warning ? "warning" : "info";
}
