/** What a user does in VS Code, and what a user sees there. */

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";

const SEEN_WITHIN = 30_000;
const PATIENCE = 5_000;

export class Workbench {
  constructor(page, screenshots, log) {
    this.page = page;
    this.log = log;
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

  async closeTab(title) {
    const tab = this.page.locator(".tab", { hasText: title });
    await tab.hover();
    await tab.locator(".tab-actions .action-label").click();
    await tab.waitFor({ state: "detached" });
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

  async cursorIsAt(line) {
    await this.page.locator(".statusbar-item", { hasText: new RegExp(`^Ln ${line}, Col`) }).waitFor();
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
    const hover = this.page.locator(".monaco-resizable-hover .monaco-hover, .monaco-hover").filter({ visible: true });
    // VS Code misses a pointer that comes while it lays out its editor anew; a user then moves it again.
    await this.until(`a hover over ${text}`, async () => {
      const { x, right, y } = await this.placeOf(text, nth);
      await this.page.mouse.move(x - 40, y + 60);
      await this.page.mouse.move((x + right) / 2, y, { steps: 5 });
      return hover
        .first()
        .waitFor({ timeout: PATIENCE })
        .then(
          () => true,
          () => false,
        );
    });
    return hover.first();
  }

  /** Until then its commands and menus are not there either. */
  async extensionRuns() {
    await this.until("Remat to watch terminals", async () => this.log().includes("watches the terminals"));
  }

  /** Opens a terminal and waits for its prompt; once extensions run, since some of them renew terminals. */
  async openTerminal() {
    await this.extensionRuns();
    await this.command("Terminal: Create New Terminal");
    await this.#terminal(".xterm-helper-textarea").waitFor({ state: "attached" });
    await this.#prompted();
  }

  /** The prompt is back, and VS Code has told extensions so. */
  async commandEnds() {
    await this.#prompted();
    await this.page.waitForTimeout(500);
  }

  async #prompted() {
    await this.until("a prompt", async () => /[$#]\s*$/.test((await this.terminalText()).trimEnd()));
  }

  #terminal(part = "") {
    return this.page.locator(`.terminal-wrapper.active ${part}`);
  }

  async terminalText() {
    const rows = await this.#terminal(".xterm-rows > div").allInnerTexts();
    return rows.map((row) => row.replaceAll("\u00a0", " ").trimEnd()).join("\n");
  }

  async terminalSays(text) {
    await this.until(`${text} in the terminal`, async () => (await this.terminalText()).includes(text));
  }

  /** Types a command into the terminal and runs it. */
  async run(command) {
    await this.#terminal(".xterm").click();
    await this.type(command);
    await this.press("Enter");
  }

  /** Drags the mouse from the last row with `from` to the first row after it with `to`. */
  async selectInTerminal(from, to) {
    const rows = this.#terminal(".xterm-rows > div");
    const texts = (await rows.allInnerTexts()).map((row) => row.replaceAll("\u00a0", " "));
    const first = texts.findLastIndex((row) => row.includes(from));
    const last = texts.findIndex((row, index) => index >= first && row.includes(to));
    if (first < 0 || last < 0) throw new Error(`expected ${from} … ${to} in the terminal:\n${texts.join("\n")}`);
    const start = await rows.nth(first).boundingBox();
    const end = await rows.nth(last).boundingBox();
    await this.page.mouse.move(start.x + 1, start.y + start.height / 2);
    await this.page.mouse.down();
    await this.page.mouse.move(end.x + 40, end.y + end.height / 2, { steps: 8 });
    await this.page.mouse.move(end.x + end.width - 3, end.y + end.height / 2, { steps: 4 });
    await this.page.mouse.up();
    return { x: start.x + 30, y: start.y + start.height / 2 };
  }

  /** Right-clicks and chooses from the menu. */
  async menu({ x, y }, title) {
    await this.page.mouse.click(x, y, { button: "right" });
    const item = this.page.locator(".context-view .action-item", { hasText: title });
    await item.waitFor();
    await this.shot("menu");
    await item.click();
  }

  /** Where the terminal is, for a click into it. */
  async inTerminal() {
    const { x, y, width, height } = await this.#terminal(".xterm-screen").boundingBox();
    return { x: x + width / 2, y: y + height / 2 };
  }

  /** Ctrl+clicks a link in the terminal. */
  async clickTerminalLink(text) {
    const row = this.#terminal(".xterm-rows > div").filter({ hasText: text }).last();
    const { x, y, height } = await row.boundingBox();
    const at = [x + 20, y + height / 2];
    await this.page.mouse.move(at[0] + 30, at[1]);
    await this.page.keyboard.down("Control");
    await this.page.mouse.move(...at, { steps: 4 });
    await this.page.waitForTimeout(500); // links are looked for where the mouse rests
    await this.page.mouse.click(...at);
    await this.page.keyboard.up("Control");
  }

  /** Where a file stands in the explorer. */
  async inExplorer(name) {
    const { x, y, height } = await this.page
      .locator(".explorer-folders-view .monaco-list-row", { hasText: name })
      .boundingBox();
    return { x: x + 60, y: y + height / 2 };
  }

  /** Answers VS Code's own dialog for files. */
  async chooseFile(path) {
    const input = this.page.locator(".quick-input-widget input");
    await input.waitFor();
    await input.fill(path);
    await this.press("Enter");
  }

  /** A question in the middle of the window, by its title. */
  async asked(title) {
    await this.page.locator(".quick-input-widget", { hasText: title }).waitFor();
  }

  async pick(label) {
    await this.page.locator(".quick-input-list .monaco-list-row", { hasText: label }).first().click();
  }

  /** Presses a button of a notification. */
  async pressInNotification(button) {
    await this.page.locator(".notifications-toasts .monaco-button", { hasText: button }).first().click();
  }

  /** The page of the report; waits until it shows one. */
  async report(text = "What began it") {
    const page = this.page.frameLocator("iframe.webview").frameLocator("iframe#active-frame").locator("main#report");
    await page.filter({ hasText: text }).waitFor();
    return page;
  }

  clipboard(text) {
    if (text === undefined) return this.page.evaluate(() => navigator.clipboard.readText());
    return this.page.evaluate((given) => navigator.clipboard.writeText(given), text);
  }

  notifications() {
    return this.page.locator(".notifications-toasts .notification-list-item-message").allInnerTexts();
  }

  async notificationSays(text, timeout = SEEN_WITHIN) {
    const toasts = this.page.locator(".notifications-toasts .notification-list-item", { hasText: text });
    await toasts.first().waitFor({ timeout });
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
