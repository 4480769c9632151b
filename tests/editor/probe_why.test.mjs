import { match } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { PROBING, probed, probePage, WITHOUT_EFFECT } from "./harness/probing.mjs";

journey(
  "asked why memory is still high, the panel says what was not recomputed, why, and which line is the mistake",
  { files: { "tower.py": WITHOUT_EFFECT }, settings: PROBING },
  async (editor) => {
    await editor.open("tower.py");
    await editor.squigglesBecome(1);
    await editor.goTo("self.head = ");
    await editor.command("Remat: Why Is Memory Still High?");
    const page = probePage(editor);
    await page.locator("#effect").waitFor({ timeout: 90_000 });
    await editor.until("the answer to be in sight", () =>
      page.locator("#effect").evaluate((one) => {
        const { top } = one.getBoundingClientRect();
        return top >= -5 && top < window.innerHeight / 2;
      }),
    );
    await probed(page);
    match(await page.locator("#effect-verdict").innerText(), /^No: reentrant checkpoint\(\) was called/);
    await editor.shot("why");
    await page.locator("#effect .link", { hasText: "tower.py:13" }).first().click();
    await editor.cursorIsAt(13);

    await editor.goTo("checkpoint(block", 0);
    await editor.quickFixes();
    await editor.choose("Use the non-reentrant variant");
    await page.locator("#outdated", { hasText: "tower.py has changed since" }).waitFor();
    await page.locator(".bar.changed button", { hasText: "Compare memory before and after" }).click();
    await page.locator("#compared").waitFor({ timeout: 90_000 });
    await probed(page);
    match(await page.locator("#compared tbody").innerText(), /Recomputed\s+nothing\s+4 × Linear/);
    match(await page.locator("#effect-verdict").innerText(), /^Yes\./);
    await editor.shot("after the fix");
  },
);
