/** Elements of the page. All text goes in as text: nothing that a log says can be markup here. */

export type Child = Node | string | false | null | undefined;
type Attributes = Readonly<Record<string, string | boolean | undefined>>;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (typeof value === "string") made.setAttribute(name, value);
  }
  made.append(...children.flatMap((child) => (child ? [typeof child === "string" ? visible(child) : child] : [])));
  return made;
}

export function button(label: string, act: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const made = element("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", act);
  return made;
}

/** A button within text, that breaks over lines as the text does. */
export function link(label: string, act: () => void, attributes: Attributes = {}): HTMLElement {
  const made = element("span", { role: "link", tabindex: "0", class: "link", ...attributes }, label);
  made.addEventListener("click", act);
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    act();
  });
  return made;
}

/** Of a sentence of ours, not of a log: words between backticks are code. */
export function sentence(text: string): Child[] {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return [text]; // one without its partner
  return parts.map((part, index) => (index % 2 === 1 && part ? element("code", {}, part) : part));
}

/** Letters that turn text around or hide it, as their numbers. The server has replaced them already; this is the page's own guard. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text: string): string {
  return text.replace(INVISIBLE, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
