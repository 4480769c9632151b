/** What the buttons of the report do. They act on the report as the server gave it, never on what the page says. */

import * as vscode from "vscode";
import type { DiagnoseParams, Diagnosis } from "../protocol";
import type { Executions } from "../terminal/executions";
import type { Next, Pressed } from "./messages";
import { openLine } from "./open";
import { applyRepair, saveRepaired } from "./repair";
import type { Shown } from "./report";
import { runInTerminal } from "./run";

export type Say = (about: string, words: string, next?: Next) => void;

/** Does it; what is returned is to be diagnosed next. */
export async function act(
  message: Pressed,
  { log, diagnosis }: Shown,
  panel: vscode.WebviewPanel,
  executions: Executions,
  say: Say,
): Promise<DiagnoseParams | undefined> {
  switch (message.kind) {
    case "openPlace":
      return void (await openLine(panel, diagnosis.place?.uri, diagnosis.place?.line));
    case "openLogLink": {
      const line = diagnosis.log.find(({ number }) => number === message.line);
      const link = line?.links[message.link];
      return void (await openLine(panel, link?.uri, link?.line));
    }
    case "openRepair":
    case "applyRepair":
    case "saveRepair":
      return void (await repairs(message, diagnosis, panel, say));
    case "runVerify":
      return void (await runInTerminal(diagnosis, log.cwd ?? null, executions, (words) => say("verify", words)));
    case "copyVerify":
      return void (await copy(diagnosis.verify, () => say("verify", "Copied.")));
    case "copyHow":
      return void (await copy(diagnosis.missing[message.missing]?.how, () =>
        say(`missing-${message.missing}`, "Copied."),
      ));
    case "copyMarkdown":
      return void (await copy(diagnosis.markdown, () => say("report", "Copied, with secrets and user names masked.")));
    case "permit": {
      const file = diagnosis.evidence[message.evidence];
      return file && { ...log, permitted: [...(log.permitted ?? []), file.path] };
    }
    case "permitAll": {
      const waiting = diagnosis.evidence.filter(({ read }) => !read).map(({ path }) => path);
      return { ...log, permitted: [...(log.permitted ?? []), ...waiting] };
    }
    case "openDocs":
      return void (diagnosis.docs && (await vscode.env.openExternal(vscode.Uri.parse(diagnosis.docs, true))));
  }
}

async function repairs(
  { kind, repair: index }: Extract<Pressed, { readonly repair: number }>,
  { repairs: all }: Diagnosis,
  panel: vscode.WebviewPanel,
  say: Say,
): Promise<void> {
  const repair = all[index];
  if (kind === "openRepair") return void (await openLine(panel, repair?.uri, repair && repair.line + 1));
  if (!repair) return;
  const answer = (words: string, next?: Next) => say(`repair-${index}`, words, next);
  await (kind === "applyRepair" ? applyRepair(repair, panel, answer) : saveRepaired(repair, answer));
}

async function copy(text: string | null | undefined, copied: () => void): Promise<void> {
  if (!text) return;
  await vscode.env.clipboard.writeText(text);
  copied();
}
