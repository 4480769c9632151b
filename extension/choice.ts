/** Which Python runs the server, and whose installed packages it reads versions from. */

import type * as vscode from "vscode";
import { type Candidate, candidates, SETTING } from "./interpreter";
import { askPython, type Python } from "./python";
import type { ImportStrategy } from "./settings";

export interface Choice {
  /** The user's interpreter per folder (its URI), where versions of torch are read; null: the server looks itself. */
  readonly interpreters: ReadonlyMap<string, string | null>;
  /** The Python that runs the server: the user's if it can, else any other that can. */
  readonly server: (Python & { source: string }) | undefined;
  /** What is wrong with the interpreter the user named, in a sentence. */
  readonly complaints: readonly string[];
  /** Every candidate tried and what came of it. */
  readonly tried: readonly string[];
}

type Answer = { candidate: Candidate; python: Python | string };

export async function choose(
  folders: readonly (vscode.WorkspaceFolder | undefined)[],
  root: string,
  strategy: ImportStrategy,
  log: vscode.LogOutputChannel,
): Promise<Choice> {
  const known = new Map<string, Promise<Python | string>>();
  const ask = (command: string): Promise<Python | string> => {
    const answer = known.get(command) ?? askPython(command, root, strategy);
    known.set(command, answer);
    return answer;
  };
  const interpreters = new Map<string, string | null>();
  const answers: Answer[] = [];
  for (const folder of folders) {
    const found = await askInOrder(candidates(folder, log), ask);
    interpreters.set(
      folder?.uri.toString() ?? "",
      found.map(usersOwn).find((executable) => executable !== null) ?? null,
    );
    answers.push(...found);
  }
  const first = answers.find(({ python }) => canServe(python));
  return {
    interpreters,
    server: first && typeof first.python === "object" ? { ...first.python, source: first.candidate.source } : undefined,
    complaints: unique(answers.filter(isNamedAndWrong).map(complaint)),
    tried: unique(answers.map(describe)),
  };
}

/** Asks candidates until one can run the server: usually the first. */
async function askInOrder(
  found: AsyncGenerator<Candidate>,
  ask: (command: string) => Promise<Python | string>,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for await (const candidate of found) {
    const python = await ask(candidate.command);
    answers.push({ candidate, python });
    if (canServe(python)) break;
  }
  return answers;
}

function usersOwn({ candidate, python }: Answer): string | null {
  if (typeof python === "string" || candidate.versions === "never") return null;
  return candidate.versions === "always" || python.torch ? python.executable : null;
}

function canServe(python: Python | string): boolean {
  return typeof python !== "string" && python.fault === null;
}

function isNamedAndWrong({ candidate, python }: Answer): boolean {
  return typeof python === "string" && candidate.source === SETTING;
}

function complaint({ candidate, python }: Answer): string {
  return `remat.interpreter must be a Python executable, but ${candidate.command} ${python}. Correct the setting or remove it.`;
}

function describe({ candidate, python }: Answer): string {
  const { source, command } = candidate;
  if (typeof python === "string") return `${source}: ${command} ${python}`;
  const at = python.executable === command ? "" : ` at ${python.executable}`;
  return `${source}: ${command} is ${python.implementation} ${python.version}${at}${python.fault ? `: ${python.fault}` : ""}`;
}

function unique(lines: readonly string[]): string[] {
  return [...new Set(lines)];
}
