/** What a user does in VS Code, and what a user sees there. */

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";

const SEEN_WITHIN = 30_000;
const PATIENCE = 5_000;

export class Workbench {
  constructor(page, screenshots) {
    this.page = page;
    this.screenshots = screenshots;
    this.shots = 0;
    page.setDefaultTimeout(SEEN_WITHIN);
    rmSync(screenshots, { recursive: true, force: true });
    mkdirSync(screenshots, { recursive: true });
  }

  async ready() {
    await this.page.locator(".monaco-workbench .explorer-folders-view .monaco-list-row").first().waitFor();
  }

  async open(file) {
    await this.page.keyboard.press("Control+P");
    const row = await this.#choose(file, file.split("/").at(-1));
    await this.page.keyboard.press("Enter");
    await row.waitFor({ state: "hidden" });
    await this.page.locator(".editor-instance .view-line").first().waitFor();
  }

  async command(title) {
    await this.page.keyboard.press("F1");
    await this.#choose(`>${title}`, title);
    await this.page.keyboard.press("Enter");
  }

  async #choose(typed, expected) {
    const input = this.page.locator(".quick-input-widget input");
    await input.waitFor();
    await input.fill(typed);
    const row = this.page.locator(".quick-input-list .monaco-list-row.focused", { hasText: expected });
    await row.waitFor();
    return row;
  }

  /** Puts the cursor before the `nth` occurrence of `text` that is on the screen. */
  async goTo(text, nth = 0) {
    const { x, y } = await this.placeOf(text, nth);
    await this.page.mouse.click(x + 1, y);
  }

  /** Where `text` stands on the screen: its left edge, its right edge and the middle of its line. */
  async placeOf(text, nth = 0) {
    let box;
    // A line that is drawn anew between being found and being measured has no place.
    await this.until(`${text} on the screen`, async () => {
      const line = this.line(text).nth(nth);
      await line.waitFor();
      box = await line.evaluate(boxOf, text);
      return box.right > box.x;
    });
    return box;
  }

  line(text) {
    return this.page.locator(".editor-instance .view-line", { hasText: text });
  }

  /** Types into the editor that is open, wherever its cursor is. */
  async typeInEditor(text) {
    await this.page.locator(".editor-instance .view-lines").first().click();
    await this.type(text);
  }

  async type(text) {
    await this.page.keyboard.type(text);
  }

  async press(keys) {
    await this.page.keyboard.press(keys);
  }

  async save() {
    await this.page.keyboard.press("Control+S");
    await this.page.locator(".tab.active.dirty").waitFor({ state: "detached" });
  }

  squiggles() {
    return this.page.locator(
      ".editor-instance .squiggly-warning, .editor-instance .squiggly-info, .editor-instance .squiggly-error",
    );
  }

  /** Code that is shown as having no effect. */
  greyed() {
    return this.page.locator(".editor-instance .squiggly-unnecessary, .editor-instance .squiggly-inline-unnecessary");
  }

  async squigglesBecome(count) {
    await this.until(`${count} underlined places`, async () => (await this.squiggles().count()) === count);
  }

  /** The rows of the Problems view that are findings, as text. */
  async problems() {
    const view = this.page.locator(".markers-panel");
    if (!(await view.isVisible())) await this.command("Problems: Focus on Problems View");
    await view.waitFor();
    const rows = await view.locator(".monaco-list-row:has(.marker-icon)").allInnerTexts();
    return rows.map((row) => row.replaceAll(/\s+/g, " ").trim());
  }

  async problemsBecome(count) {
    let rows = [];
    await this.until(`${count} rows in Problems`, async () => {
      rows = await this.problems();
      return rows.length === count;
    }).catch((error) => {
      throw new Error(`${error.message}; they are:\n${rows.join("\n")}`);
    });
    return rows;
  }

  async problemSays(text) {
    await this.until(`a row in Problems with ${text}`, async () => {
      const rows = await this.problems();
      return rows.some((row) => row.includes(text));
    });
  }

  /** Opens the quick fixes at the cursor and returns their titles. */
  async quickFixes() {
    const rows = this.page.locator(".action-widget .monaco-list-row.action");
    // VS Code closes the menu again where the findings were renewed meanwhile; a user then presses once more.
    await this.until("quick fixes", async () => {
      await this.page.keyboard.press("Control+.");
      return rows
        .first()
        .waitFor({ timeout: PATIENCE })
        .then(
          () => true,
          () => false,
        );
    });
    return rows.allInnerTexts();
  }

  async choose(title) {
    await this.page.locator(".action-widget .monaco-list-row.action", { hasText: title }).first().click();
  }

  async hover(text, nth = 0) {
    const { x, right, y } = await this.placeOf(text, nth);
    await this.page.mouse.move(x - 40, y + 60);
    await this.page.mouse.move((x + right) / 2, y, { steps: 5 });
    const hover = this.page.locator(".monaco-resizable-hover .monaco-hover, .monaco-hover").filter({ visible: true });
    await hover.first().waitFor();
    return hover.first();
  }

  notifications() {
    return this.page.locator(".notifications-toasts .notification-list-item-message").allInnerTexts();
  }

  async notificationSays(text) {
    await this.page.locator(".notifications-toasts .notification-list-item", { hasText: text }).first().waitFor();
  }

  async until(what, isSo, within = SEEN_WITHIN) {
    const end = Date.now() + within;
    while (!(await isSo())) {
      if (Date.now() > end) throw new Error(`expected ${what} within ${within / 1000} s`);
      await this.page.waitForTimeout(100);
    }
  }

  async shot(name) {
    this.shots += 1;
    await this.page.screenshot({ path: join(this.screenshots, `${this.shots}-${name}.png`) });
  }
}

/** Runs in the page: the box around `text` within a line, which is drawn as many pieces. */
function boxOf(line, text) {
  const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  const whole = nodes
    .map((node) => node.data)
    .join("")
    .replaceAll("\u00a0", " ");
  const place = (offset) => {
    let left = offset;
    const node = nodes.find((candidate) => {
      if (left <= candidate.data.length) return true;
      left -= candidate.data.length;
      return false;
    });
    return [node, left];
  };
  const start = whole.indexOf(text);
  const range = document.createRange();
  range.setStart(...place(start));
  range.setEnd(...place(start + text.length));
  const { left, right, top, height } = range.getBoundingClientRect();
  return { x: left, right, y: top + height / 2 };
}
