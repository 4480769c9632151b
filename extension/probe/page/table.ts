/** Tables of figures: the first cell of a row says what it is about. */

import { type Child, element } from "../../report/page/elements";

interface About {
  readonly id?: string;
  readonly caption: string;
}

/** It can be scrolled sideways, also with the keyboard, where it is wider than the panel. */
export function tableOf(
  { id, caption }: About,
  head: readonly string[],
  rows: readonly (readonly Child[])[],
): HTMLElement {
  const made = rows.map((cells) =>
    element(
      "tr",
      {},
      ...cells.map((cell, at) => (at === 0 ? element("th", { scope: "row" }, cell) : element("td", {}, cell))),
    ),
  );
  return element(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    element(
      "table",
      { id },
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...made),
    ),
  );
}
