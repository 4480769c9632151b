import { equal, match, ok } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { bytesIn, figure, MODEL, PLAIN, PROBING, probeByLens, probed, probePage } from "./harness/probing.mjs";

journey(
  "a way to checkpoint is applied to the code with one press, and the panel shows memory before and after",
  { files: { "tower.py": PLAIN }, settings: PROBING },
  async (editor, disk) => {
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    const page = probePage(editor);
    await probed(page);
    match(await page.locator("#sizes").innerText(), /^Batch 8, sequence 512$/);
    const planned = await figure(page, "Every block", "Allocated");
    await page.locator("#apply").scrollIntoViewIfNeeded();
    await page.getByRole("button", { name: "Apply to code: Every block" }).click();
    await page.locator(".planned", { hasText: "Written" }).waitFor();
    await editor.line("x = checkpoint(block, x, use_reentrant=False)").waitFor();
    await editor.cursorIsAt(29);
    equal(await editor.squiggles().count(), 0);
    await page.locator("#outdated", { hasText: "tower.py has changed since" }).waitFor();
    await editor.shot("applied");

    await page.locator(".planned button", { hasText: "Compare memory before and after" }).click();
    await page.locator("#compared").waitFor({ timeout: 90_000 });
    await probed(page);
    match(disk.read("tower.py"), /from torch import nn\nfrom torch.utils.checkpoint import checkpoint\n/);
    match(disk.read("tower.py"), /if self.training:\n +x = checkpoint\(block, x, use_reentrant=False\)\n +else:/);
    match(await page.locator("#compared-verdict").innerText(), /^The peak is .* lower than before: 274 MiB → 136 MiB/);
    match(await page.locator("#compared tbody").innerText(), /Recomputed\s+nothing\s+4 × Block/);
    equal(await figure(page, "▶ As written", "Allocated"), planned);
    equal(await page.getByRole("button", { name: "Apply to code: Every block" }).count(), 0, "the code has it already");
    await page.locator("#compared").scrollIntoViewIfNeeded();
    await editor.shot("compared");

    await editor.typeInEditor("");
    await editor.press("Control+Z");
    await editor.until("the change to be undone", async () => (await editor.line("checkpoint(block").count()) === 0);
  },
);

journey(
  "advice names what the peak consists of, each change has its figure, and one that is a plan can be applied",
  { files: { "tower.py": PLAIN }, settings: PROBING },
  async (editor) => {
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    const page = probePage(editor);
    await probed(page);
    await page.locator("#advise").focus();
    await editor.press("Enter");
    await page.locator("#status", { hasText: "tried" }).waitFor();
    await page.locator("#advice-changes").waitFor({ timeout: 120_000 });
    match(await page.locator("#dominant").innerText(), /^The peak of 273\.\d MiB is in \w+: .* of activations/);
    match(await page.locator("#largest-batch").innerText(), /^Largest batch that surely fits as it is: \d+/);
    await page.locator("#advice").scrollIntoViewIfNeeded();
    await editor.shot("advice");
    const every = page.locator("#advice-changes tr", { hasText: "Checkpoint every block" });
    equal(await every.locator("td").first().innerText(), await figure(page, "Every block", "Allocated"));
    const half = page.locator("#advice-changes tr", { hasText: "under autocast to fp16, with a GradScaler" });
    const said = await half.locator("td").first().innerText();
    await every.getByRole("button", { name: "Apply to code" }).click();
    await page.locator("#advice .planned", { hasText: "Written" }).waitFor();
    await editor.press("Control+Z");
    await editor.until("the change to be undone", async () => (await editor.line("checkpoint(block").count()) === 0);
    await half.getByRole("button", { name: "Show" }).click();
    await page.locator("#ran pre", { hasText: "--autocast fp16" }).waitFor({ timeout: 90_000 });
    equal(await page.locator("#tiers .figure").first().innerText(), said);
  },
);

journey(
  "for a batch that does not fit, advice says what makes it fit and the fewest blocks, and writes those",
  { files: { "tower.py": PLAIN }, settings: PROBING },
  async (editor, _disk, profile) => {
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    const page = probePage(editor);
    await probed(page);
    await page.locator('[name="batch"]').fill("600");
    await page.locator("#headline h1", { hasText: "Does not fit on T4" }).waitFor({ timeout: 90_000 });
    await probed(page);
    await page.getByRole("button", { name: "Advise", exact: true }).click();
    await page.locator("#advice-fewest").waitFor({ timeout: 120_000 });
    match(await page.locator("#advice-steps caption").innerText(), /^One after the other; then: fits$/);
    const row = page.locator("#advice-fewest tbody tr");
    match(await row.innerText(), /^Checkpoint the first \d of 4 blocks/);
    for (const theme of ["Default High Contrast", "Default Dark Modern", "Default Light Modern"]) {
      profile.set({ "workbench.colorTheme": theme });
      await editor.page.waitForTimeout(1500);
      await page.locator("#advice-changes").scrollIntoViewIfNeeded();
      await editor.shot(`changes in ${theme}`);
      await page.locator("#timeline").scrollIntoViewIfNeeded();
      await editor.shot(`timeline in ${theme}`);
    }
    await row.getByRole("button", { name: "Apply to code" }).click();
    await page
      .locator("#advice .planned", { hasText: /Written\. The first \d blocks? of self\.blocks now run/ })
      .waitFor();
    await editor.line("i < self.checkpoint_first").waitFor();
    equal(await editor.squiggles().count(), 0);
    await page.locator("#advice .planned").scrollIntoViewIfNeeded();
    await editor.shot("fewest");
  },
);

journey(
  "checkpointing that the code has is changed, and taken out again, as edits that can be undone",
  { files: { "tower.py": MODEL }, settings: PROBING },
  async (editor, disk) => {
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    const page = probePage(editor);
    await probed(page);
    const none = await figure(page, "None", "Allocated");
    await page.getByRole("button", { name: "Apply to code: Selective" }).click();
    await page.locator(".planned", { hasText: "in place of what checkpointed them before" }).waitFor();
    await editor.line("context_fn=selective_contexts").waitFor();
    await page.locator(".planned").scrollIntoViewIfNeeded();
    await editor.shot("selective");
    await page.locator(".planned button", { hasText: "Compare memory before and after" }).click();
    await page.locator("#compared").waitFor({ timeout: 90_000 });
    await probed(page);
    match(disk.read("tower.py"), /checkpoint\(block, x, use_reentrant=False, context_fn=selective_contexts\)/);
    await page.getByRole("button", { name: "Apply to code: None" }).click();
    await page.locator(".planned", { hasText: "are called without checkpoint()" }).waitFor();
    await page.locator(".planned button", { hasText: "Compare memory before and after" }).click();
    await editor.until("the file to be saved", async () =>
      disk.read("tower.py").includes("            x = block(x)\n"),
    );
    await page.locator("#effect-verdict", { hasText: /^No\./ }).waitFor({ timeout: 90_000 });
    await probed(page);
    equal(await figure(page, "▶ As written", "Allocated"), none);
    equal(await page.getByRole("button", { name: "Apply to code: None" }).count(), 0, "the code has none");
  },
);

journey(
  "where the code's shape does not allow a plan, it is said why and what to write by hand",
  { files: { "tower.py": PLAIN.replace("x = block(x)", "x = block(block(x))") }, settings: PROBING },
  async (editor, disk) => {
    const before = disk.read("tower.py");
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    const page = probePage(editor);
    await probed(page);
    await page.getByRole("button", { name: "Apply to code: Every 2nd block" }).click();
    const card = page.locator(".planned.by-hand");
    await card.waitFor();
    match(await card.innerText(), /Not written: the loop calls a block more than once\.[\s\S]*i % 2 == 0/);
    await card.scrollIntoViewIfNeeded();
    await editor.shot("by-hand");
    await card.getByRole("button", { name: "Copy" }).click();
    await card.locator(".answer", { hasText: "Copied." }).waitFor();
    equal(disk.read("tower.py"), before);
  },
);

journey(
  "the step is measured on this machine beside its estimate",
  { files: { "tower.py": PLAIN }, settings: PROBING },
  async (editor) => {
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    const page = probePage(editor);
    await probed(page);
    await page.getByRole("button", { name: "Measure", exact: true }).click();
    await page.locator("table#measured").waitFor({ timeout: 120_000 });
    const cells = await page.locator("#measured tbody tr").first().locator("td").allInnerTexts();
    const [estimated, measured, off] = cells;
    ok(Math.abs(bytesIn(estimated) / bytesIn(measured) - 1) < 0.01, cells.join(" "));
    match(off, /^[+−]?0\.\d\d %$/);
    match(await page.locator("#measured").innerText(), /On the CPU of this machine[\s\S]*Time of a step\s+–\s+\d+/);
    match(await page.locator("#not-on-gpu").innerText(), /^Measured on the CPU, not on a GPU: .*torch/);
    await page.locator("#measure").scrollIntoViewIfNeeded();
    await editor.shot("measured");
  },
);
