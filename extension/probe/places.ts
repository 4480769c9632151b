/** The files that an answer is about, as they were when it came. */

import * as vscode from "vscode";
import type { ProbeAnswer } from "../protocol";
import type { Code } from "./page_messages";

/** The text of each file, by its path. */
export type Texts = ReadonlyMap<string, string>;

const MOST_FILES = 40;
const LARGEST = 2 ** 21;
const LONGEST_LINE = 160;

export async function textsOf({ variants, failures }: ProbeAnswer): Promise<Texts> {
  const places = [...variants.flatMap(({ byLine }) => byLine), ...failures.map(({ location }) => location)];
  const paths = [...new Set(places.flatMap((place) => (place ? [place.path] : [])))].slice(0, MOST_FILES);
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
export function codeOf({ variants, failures }: ProbeAnswer, texts: Texts): Code {
  const lines = new Map([...texts].map(([path, text]) => [path, text.split(/\r?\n/)]));
  const places = [...variants.flatMap(({ byLine }) => byLine), ...failures.map(({ location }) => location)];
  const code: Record<string, string> = {};
  for (const place of places) {
    const text = place && lines.get(place.path)?.[place.line - 1]?.trim();
    if (place && text) code[`${place.path}:${place.line}`] = text.slice(0, LONGEST_LINE);
  }
  return code;
}
