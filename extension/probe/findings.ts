/** What the language server finds in the files that a probe is about: it may be why memory is still high. */

import * as vscode from "vscode";
import type { ProbeAnswer } from "../protocol";
import type { Finding } from "./page_messages";
import type { Model } from "./targets";

/** As the server signs its diagnostics. */
const SOURCE = "Remat";

export function findingsFor({ variants }: ProbeAnswer, { place }: Model): Finding[] {
  const paths = variants.flatMap(({ byLine }) => byLine.map(({ path }) => path));
  const files = new Set(place ? [place.uri.fsPath, ...paths] : paths);
  return [...files].flatMap((path) =>
    vscode.languages
      .getDiagnostics(vscode.Uri.file(path))
      .filter(({ source }) => source === SOURCE)
      .map(({ range, message, code }) => ({
        path,
        line: range.start.line + 1,
        rule: String(typeof code === "object" ? code.value : code),
        message,
      })),
  );
}
