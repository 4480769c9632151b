/** What is probed and how, as the page says it: the command that does the same, and the Python it runs under. */

import type { Server } from "../server";
import { asOptions, type Knobs } from "./knobs";
import type { Subject } from "./page_messages";
import type { Model } from "./targets";

/** What is run, before it is; the answer says it again as it was. */
export function subjectOf({ name, target, folder }: Model, knobs: Knobs, server: Server): Subject {
  const choice = server.facts().choice;
  const python = choice?.interpreters.get(folder.toString()) ?? [...(choice?.interpreters.values() ?? [])][0];
  const shown = target.startsWith(`${folder.fsPath}/`) ? target.slice(folder.fsPath.length + 1) : target;
  const command = ["remat", "probe", ...[shown, ...asOptions(knobs)].map(quoted)].join(" ");
  return { name, command, python: python ?? "the .venv nearest to the file, else the Python on PATH" };
}

function quoted(word: string): string {
  return /^[\w./:@%+,=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
