/** Where the memory is: by what it is used for, by module and by line of code. */

import { button, type Child, element, link } from "../../report/page/elements";
import type { VariantResult } from "../messages";
import { inBytes } from "../numbers";
import type { Code } from "../page_messages";
import { meaningOf, nameOf, swatch } from "./categories";

const MOST = 15;
/** Less than this of the whole reads as nothing. */
const SMALLEST_SHARE = 0.0005;

type Open = (path: string, line: number) => void;

export function byCategory({ byCategory: bytes, allocatedBytes }: VariantResult): HTMLElement {
  const rows = Object.entries(bytes)
    .filter(([, size]) => size > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([category, size]) => [
      element(
        "span",
        { class: "named" },
        swatch(category),
        nameOf(category),
        element("span", { class: "note" }, meaningOf(category)),
      ),
      inBytes(size),
      share(size, allocatedBytes),
    ]);
  return table("What is alive at the peak", ["Used for", "Bytes", "Share"], rows);
}

export function byModule({ byModule: modules, savedActivationBytes }: VariantResult): HTMLElement {
  const rows = modules
    .filter(({ parameterBytes, savedBytes }) => parameterBytes + savedBytes > 0)
    .sort((a, b) => b.savedBytes - a.savedBytes || b.parameterBytes - a.parameterBytes)
    .map(({ module, className, count, parameterBytes, savedBytes }) => [
      element(
        "span",
        {},
        element("code", {}, module || "(whole model)"),
        " ",
        element("span", { class: "note" }, className, count > 1 ? ` × ${count}` : ""),
      ),
      parameterBytes ? inBytes(parameterBytes) : "–",
      savedBytes ? inBytes(savedBytes) : "–",
      share(savedBytes, savedActivationBytes),
    ]);
  return table("Modules, with all that is inside them", ["Module", "Parameters", "Saved activations", "Share"], rows);
}

export function byLine({ byLine: lines, savedActivationBytes }: VariantResult, code: Code, open: Open): HTMLElement {
  const rows = lines
    .filter(({ bytes }) => bytes > savedActivationBytes * SMALLEST_SHARE)
    .map(({ path, line, bytes }) => [
      element(
        "span",
        {},
        link(`${short(path)}:${line}`, () => open(path, line), { title: `Open ${path} at line ${line}` }),
        " ",
        element("code", { class: "source" }, code[`${path}:${line}`] ?? ""),
      ),
      inBytes(bytes),
      share(bytes, savedActivationBytes),
    ]);
  return table("Lines whose activations stay for backward", ["Line", "Saved", "Share"], rows);
}

function table(caption: string, head: readonly string[], rows: readonly (readonly Child[])[]): HTMLElement {
  if (rows.length === 0) return element("p", { class: "note" }, `${caption}: none.`);
  const made = rows.map((cells, index) =>
    element(
      "tr",
      { hidden: index >= MOST },
      ...cells.map((cell, at) => element(at === 0 ? "th" : "td", at === 0 ? { scope: "row" } : {}, cell)),
    ),
  );
  const more = rows.length - MOST;
  const all = button(
    `Show ${more} more`,
    () => {
      for (const row of made) row.hidden = false;
      all.remove();
    },
    { class: "secondary" },
  );
  return element(
    "div",
    { class: "wide" },
    element(
      "table",
      {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...made),
    ),
    more > 0 && all,
  );
}

function share(bytes: number, whole: number): string {
  if (bytes === 0) return "–";
  return whole > 0 ? `${((bytes / whole) * 100).toFixed(bytes * 10 < whole ? 1 : 0)} %` : "–";
}

export function short(path: string): string {
  return path.split(/[\\/]/).at(-1) ?? path;
}
