import { deepEqual, equal, match, ok } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { bytesIn, figure, MODEL, PROBING, probeByLens, probed, probePage } from "./harness/probing.mjs";

journey(
  "the lens over a model leads to what its memory goes to, with charts, tables and the lines",
  { files: { "tower.py": MODEL }, settings: PROBING },
  async (editor, _disk, profile) => {
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    await editor.page.locator(".notification-list-item", { hasText: "Remat probes tower.py: Tower" }).waitFor();
    const page = probePage(editor);
    match(await page.locator("#ran pre").innerText(), /remat probe .*tower\.py:Tower/);
    await editor.shot("progress");
    await probed(page);
    await editor.shot("panel");

    match(await page.locator("#headline").innerText(), /Fits on T4[\s\S]*usable on T4[\s\S]*Estimated/i);
    deepEqual(await page.locator("#tiers dt").allInnerTexts(), ["Allocated", "Reserved", "Process"]);
    ok((await page.locator("#timeline svg.chart .area path").count()) >= 5, "areas by category");
    match(await page.locator("#timeline svg.chart").textContent(), /backward.*Step 2/);
    deepEqual(await page.locator("#variants tbody th").allInnerTexts(), [
      "▶ As written",
      "None",
      "Every block",
      "Every 2nd block",
      "Selective",
    ]);
    ok((await page.locator("#compare svg.chart .area rect").count()) >= 15, "bars in parts");
    equal(await figure(page, "Every block", "Allocated"), await figure(page, "▶ As written", "Allocated"));
    ok(
      bytesIn(await figure(page, "None", "Allocated")) > 1.5 * bytesIn(await figure(page, "Every block", "Allocated")),
    );
    match(await page.locator("#effect").innerText(), /Yes\. 4 modules were recomputed[\s\S]*blocks\.\*\s+Block × 4/);

    await page.locator("#timeline").scrollIntoViewIfNeeded();
    await page.locator("#timeline svg.chart").hover({ position: { x: 120, y: 150 } });
    match(await page.locator("#reading").innerText(), /Step 1, \w+/);
    await editor.shot("timeline");
    await page.locator("#cursor").focus();
    await editor.press("End");
    match(await page.locator("#cursor").getAttribute("aria-valuetext"), /Step 2, optimizer.*Parameters/);

    await editor.line("▲").first().waitFor();
    match(await editor.line("self.embedding(ids)").innerText(), /▲.4\.00.MiB.saved.here/);
    await page.locator("#variants").scrollIntoViewIfNeeded();
    await editor.shot("compared");
    await page.locator("#breakdown").scrollIntoViewIfNeeded();
    await editor.shot("breakdown");
    await page
      .locator("#breakdown .link", { hasText: /^tower\.py:/ })
      .first()
      .click();
    await editor.cursorIsAt(15);
    profile.set({ "remat.showSavedMemory": false });
    await editor.until("no hints", async () => (await editor.line("▲").count()) === 0);
    profile.set({ "remat.showSavedMemory": true });
    await editor.line("▲").first().waitFor();
    await editor.typeInEditor("#");
    await page.locator("#outdated", { hasText: "tower.py has changed since" }).waitFor();
    await editor.until("the hints to be gone", async () => (await editor.line("▲").count()) === 0);
  },
);

journey(
  "what-if changes the numbers, and what is out of date is never shown as the answer",
  { files: { "tower.py": MODEL }, settings: PROBING },
  async (editor) => {
    await editor.open("tower.py");
    await editor.goTo("self.embedding = ");
    await editor.command("Remat: Probe Memory");
    const page = probePage(editor);
    await probed(page);
    const before = bytesIn(await allocated(page));
    await page.locator('[name="batch"]').fill("16");
    await page.locator("#results.stale").waitFor();
    await page.locator('[name="optimizer"]').selectOption("sgd");
    await editor.shot("waiting");
    await page.locator("#ran pre", { hasText: "--optimizer sgd --batch 16" }).waitFor({ timeout: 90_000 });
    const after = bytesIn(await allocated(page));
    ok(after > 1.2 * before, `${after} with twice the batch and SGD, ${before} before`);
    match(await page.locator("#headline").innerText(), /Tensors hold .* more than as first probed, 136 MiB/);
    await probed(page);
    await page.locator("#variants .link", { hasText: "None" }).click();
    match(await page.locator("#effect-verdict").innerText(), /^No\./);
    ok(bytesIn(await allocated(page)) > after, "without checkpointing it needs more");
    await page.locator('[name="gpu"]').selectOption({ index: 0 });
    await page.locator("#headline h1", { hasText: /^Needs / }).waitFor({ timeout: 90_000 });
    await editor.shot("what-if");
  },
);

function allocated(page) {
  return page.locator("#tiers .figure").first().innerText();
}
