/** What if: the knobs of the step. */

import type { ProbeCard } from "../../protocol";
import { button, type Child, element } from "../../report/page/elements";
import { CHECKPOINTING, type Knobs, nameOfWay, UNTURNED } from "../knobs";
import { AS_WRITTEN } from "../messages";
import { inBytes } from "../numbers";

const PAUSE_MS = 350;

type Options = ReadonlyMap<string, string>;

const DTYPES: Options = new Map([
  ["", "As written"],
  ["fp32", "fp32"],
  ["bf16", "bf16"],
  ["fp16", "fp16"],
]);
const AUTOCASTS: Options = new Map([
  ["", "As written"],
  ["none", "None"],
  ["bf16", "bf16"],
  ["fp16", "fp16"],
]);
const OPTIMIZERS: Options = new Map([
  [AS_WRITTEN, "As written"],
  ["none", "None"],
  ["sgd", "SGD"],
  ["sgd-momentum", "SGD, momentum"],
  ["adamw", "AdamW"],
  ["adamw-fused", "AdamW, fused"],
  ["adamw-forloop", "AdamW, for-loop"],
  ["adamw-8bit", "AdamW, 8 bit"],
  ["adafactor", "Adafactor"],
]);

const SHARDINGS: Options = new Map([
  ["none", "As written"],
  ["ddp", "DDP"],
  ["fsdp2", "FSDP2"],
]);

export interface Controls {
  readonly form: HTMLElement;
  /** Shows these, without asking for anything. */
  set(knobs: Knobs): void;
  /** The cards to choose from. */
  offer(cards: readonly ProbeCard[]): void;
}

/** `turned` is called with new knobs once the user has paused. */
export function controls(turned: (knobs: Knobs) => void, turning: () => void): Controls {
  const fields = made();
  const missing = element("p", { id: "ranks-missing", class: "note", role: "status" });
  let timer: number | undefined;
  let told = "";
  const tell = (after: number) => {
    const knobs = read(fields);
    missing.textContent = lacksRanks(fields) ? "Over how many ranks? Fill in the world size." : "";
    if (!knobs || JSON.stringify(knobs) === told) return;
    turning();
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      told = JSON.stringify(knobs);
      turned(knobs);
    }, after);
  };
  const set = (knobs: Knobs) => {
    window.clearTimeout(timer);
    for (const [name, field] of Object.entries(fields)) write(field, knobs[name as keyof typeof fields]);
    missing.textContent = "";
    told = JSON.stringify(read(fields));
  };
  const reset = button(
    "Reset",
    () => {
      const gpu = fields.gpu.value || null;
      set({ ...UNTURNED, gpu });
      told = "";
      tell(0);
    },
    { class: "secondary" },
  );
  const form = element("form", { id: "controls", "aria-label": "What if" }, ...labelled(fields), reset, missing);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => tell(PAUSE_MS));
  return { form, set, offer: (cards) => offer(fields.gpu, cards) };
}

function made(): Fields {
  return {
    checkpointing: choice("checkpointing", CHECKPOINTING),
    batch: number("batch", "As written"),
    seq: number("seq", "As written"),
    dtype: choice("dtype", DTYPES),
    autocast: choice("autocast", AUTOCASTS),
    optimizer: choice("optimizer", OPTIMIZERS),
    gradAccum: number("gradAccum", "As written"),
    loraRank: number("loraRank", "No LoRA"),
    worldSize: number("worldSize", "One process"),
    sharding: choice("sharding", SHARDINGS),
    gpu: choice("gpu", new Map([["", "Any"]])),
  };
}

type Field = HTMLSelectElement | HTMLInputElement;
type Numbers = "batch" | "seq" | "gradAccum" | "loraRank" | "worldSize";
type Fields = Readonly<Record<Numbers, HTMLInputElement>> &
  Readonly<Record<Exclude<keyof Knobs, Numbers | "reentrant">, HTMLSelectElement>>;

/** What each knob is called on the page. */
export const LABELS: Readonly<Record<keyof Fields, string>> = {
  checkpointing: "Checkpointing",
  batch: "Batch",
  seq: "Sequence",
  dtype: "Parameters",
  autocast: "Autocast",
  optimizer: "Optimizer",
  gradAccum: "Accumulate",
  loraRank: "LoRA rank",
  worldSize: "World size",
  sharding: "Sharding",
  gpu: "GPU",
};

function labelled(fields: Fields): Child[] {
  return Object.entries(fields).map(([name, field]) =>
    element("label", {}, element("span", {}, LABELS[name as keyof Fields]), field),
  );
}

function choice(name: string, options: Options): HTMLSelectElement {
  return element("select", { name }, ...[...options].map(([value, label]) => element("option", { value }, label)));
}

function number(name: string, unset: string): HTMLInputElement {
  return element("input", { name, type: "number", min: "1", step: "1", placeholder: unset });
}

function offer(field: HTMLSelectElement, cards: readonly ProbeCard[]): void {
  const chosen = field.value;
  const options = cards.map(({ name, usableBytes }) =>
    element("option", { value: name }, `${name} (${inBytes(usableBytes)})`),
  );
  field.replaceChildren(element("option", { value: "" }, "Any"), ...options);
  write(field, chosen);
}

/** Something is put around the model, and nobody has said over how many ranks. */
function lacksRanks({ sharding, worldSize }: Fields): boolean {
  return sharding.value !== "none" && worldSize.value === "" && worldSize.validity.valid;
}

/** Undefined while a number is half typed, or missing. */
function read(fields: Fields): Knobs | undefined {
  const numbers = [fields.batch, fields.seq, fields.gradAccum, fields.loraRank, fields.worldSize];
  if (lacksRanks(fields) || numbers.some((field) => !field.checkValidity())) return undefined;
  const count = (field: Field) => (field.value === "" ? null : Number(field.value));
  const { checkpointing, optimizer, dtype, autocast, gpu } = fields;
  return {
    ...UNTURNED,
    checkpointing: checkpointing.value,
    optimizer: optimizer.value,
    dtype: dtype.value || null,
    autocast: autocast.value || null,
    gpu: gpu.value || null,
    batch: count(fields.batch),
    seq: count(fields.seq),
    gradAccum: count(fields.gradAccum),
    loraRank: count(fields.loraRank),
    worldSize: count(fields.worldSize),
    sharding: fields.sharding.value,
  };
}

/** A choice that is not in the list is added: a card of the settings. */
function write(field: Field, value: string | number | null): void {
  const text = value === null ? "" : String(value);
  if (field instanceof HTMLSelectElement && ![...field.options].some((option) => option.value === text)) {
    field.append(element("option", { value: text }, nameOfWay(text)));
  }
  field.value = text;
}
