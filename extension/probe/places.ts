/** The files that an answer is about, as they were when it came. */

import * as vscode from "vscode";
import type { ProbeAnswer } from "../protocol";
import type { Location } from "./messages";
import type { Code } from "./page_messages";

/** The text of each file, by its path. */
export type Texts = ReadonlyMap<string, string>;

const MOST_FILES = 40;
const LARGEST = 2 ** 21;
const LONGEST_LINE = 160;

/** The lines of code that an answer names. */
export function placesIn({ variants, failures }: ProbeAnswer): Location[] {
  const failed = failures.flatMap(({ location }) => (location ? [location] : []));
  return [...variants.flatMap(({ byLine }) => byLine), ...failed];
}

/** Those that it names, and `file`, that of the model. */
export async function textsOf(answer: ProbeAnswer, file: vscode.Uri | null): Promise<Texts> {
  const named = placesIn(answer).map(({ path }) => path);
  const paths = [...new Set([...(file ? [file.fsPath] : []), ...named])].slice(0, MOST_FILES);
  const read = await Promise.all(paths.map(async (path) => [path, await textOf(path)] as const));
  return new Map(read.flatMap(([path, text]) => (text === undefined ? [] : [[path, text] as const])));
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    const uri = vscode.Uri.file(path);
    const { size } = await vscode.workspace.fs.stat(uri);
    if (size > LARGEST) return undefined;
    return new TextDecoder().decode(await vscode.workspace.fs.readFile(uri));
  } catch {
    return undefined; // gone meanwhile, or a name that is no file: `<string>`
  }
}

/** The lines that the answer names. */
export function codeOf(answer: ProbeAnswer, texts: Texts): Code {
  const lines = new Map([...texts].map(([path, text]) => [path, text.split(/\r?\n/)]));
  const code: Record<string, string> = {};
  for (const place of placesIn(answer)) {
    const text = lines.get(place.path)?.[place.line - 1]?.trim();
    if (text) code[`${place.path}:${place.line}`] = text.slice(0, LONGEST_LINE);
  }
  return code;
}
