/** Did checkpointing take effect? Which modules were recomputed, which kept their activations, and what that costs. */

import type { ProbeAnswer } from "../../protocol";
import { type Child, element, link, sentence } from "../../report/page/elements";
import type { VariantResult } from "../messages";
import { inBytes } from "../numbers";
import type { Finding } from "../page_messages";
import { short } from "./breakdown";
import { inPercent } from "./variants";

const MOST = 12;

export function effect(
  { variants }: ProbeAnswer,
  variant: VariantResult,
  findings: readonly Finding[],
  open: (path: string, line: number) => void,
): Child[] {
  return [
    element("p", { id: "effect-verdict", class: variant.active ? "" : "no" }, ...verdict(variant)),
    variant.active && element("p", {}, gain(variants, variant)),
    list(
      "Recomputed in backward",
      variant.checkpointed.map(({ module, className, count }) => named(module, className, count)),
    ),
    list(
      "Kept by forward until backward",
      [...variant.notCheckpointed]
        .sort((a, b) => b.savedBytes - a.savedBytes)
        .map(({ module, className, count, savedBytes }) => [
          ...named(module, className, count),
          element("span", { class: "value" }, inBytes(savedBytes)),
        ]),
    ),
    list(
      "Mistakes in the code that may be why",
      findings.map(({ path, line, rule, message }) => [
        link(`${short(path)}:${line}`, () => open(path, line), { title: path }),
        element("span", {}, ...sentence(message), " ", element("span", { class: "rule" }, rule)),
      ]),
    ),
  ];
}

function verdict({ active, inactiveBecause, checkpointed, name }: VariantResult): Child[] {
  if (active) {
    const modules = checkpointed.reduce((sum, { count }) => sum + count, 0);
    return [element("strong", {}, "Yes."), ` ${modules} ${modules === 1 ? "module was" : "modules were"} recomputed.`];
  }
  if (inactiveBecause) return [element("strong", {}, "No: "), ...sentence(`${inactiveBecause}.`)];
  return [element("strong", {}, "No."), ` Nothing asks for it (checkpointing: ${name.toLowerCase()}).`];
}

function gain(variants: readonly VariantResult[], variant: VariantResult): string {
  const without = variants.find(({ name }) => name === "None");
  if (!without || without === variant) return "";
  const less = without.allocatedBytes - variant.allocatedBytes;
  const saved = without.savedActivationBytes - variant.savedActivationBytes;
  if (saved <= 0 && less <= 0) return "It saves nothing compared with no checkpointing.";
  const compute = inPercent(variant.recomputeFlopsRatio);
  const cost = compute === "none" ? "without more compute" : `for ${compute.slice(1)} more compute`;
  return `Compared with none, forward keeps ${inBytes(saved)} less and the peak is ${less > 0 ? `${inBytes(less)} lower` : "no lower"}, ${cost}.`;
}

function named(module: string, className: string, count: number): Child[] {
  return [element("code", {}, module || "the model itself"), ` ${className}`, count > 1 && ` × ${count}`];
}

function list(title: string, items: readonly Child[][]): Child {
  if (items.length === 0) return null;
  const shown = items.slice(0, MOST).map((item) => element("li", {}, ...item));
  const more = items.length - shown.length;
  return element(
    "div",
    {},
    element("h3", {}, title),
    element("ul", { class: "rows" }, ...shown, more > 0 && element("li", { class: "note" }, `and ${more} more`)),
  );
}
