import { equal, match } from "node:assert/strict";
import { existsSync } from "node:fs";
import { journey } from "./harness/journey.mjs";
import { ENDLESS, INCOMPLETE, PROBING, probeByLens, probed, probePage } from "./harness/probing.mjs";

journey(
  "a model that can't be built says which fact is missing, and the line that tells it is written with one press",
  { files: { "head.py": INCOMPLETE }, settings: PROBING },
  async (editor) => {
    await editor.open("head.py");
    await probeByLens(editor, "class Head");
    const page = probePage(editor);
    await page.locator(".failure", { hasText: "width" }).waitFor({ timeout: 90_000 });
    await editor.shot("failing");
    await page.locator(".failure .link", { hasText: "head.py:" }).click();
    await editor.cursorIsAt(4);
    await page.locator(".failure button", { hasText: "Insert this line" }).click();
    await page.locator(".answer", { hasText: "Fill in what is left open" }).waitFor();
    await editor.type("64");
    await editor.shot("inserted");
    await page.getByRole("button", { name: "Probe again" }).click();
    await probed(page);
    await editor.line("probe(model=Head(width=64))").waitFor();
  },
);

for (const [where, press] of [
  ["panel", (editor) => probePage(editor).getByRole("button", { name: "Cancel" }).click()],
  ["notification", (editor) => editor.pressInNotification("Cancel")],
]) {
  journey(
    `cancelling in the ${where} ends the process that the model runs in`,
    { files: { "endless.py": ENDLESS }, settings: PROBING },
    async (editor, disk) => {
      await editor.open("endless.py");
      await probeByLens(editor, "class Endless");
      await editor.until("the model to be built", async () => existsSync(disk.at("pid")), 90_000);
      const pid = Number(disk.read("pid"));
      equal(isRunning(pid), true);
      await editor.shot("running");
      await press(editor);
      await editor.until("the process to be gone", async () => !isRunning(pid));
      match(await probePage(editor).locator("#status").innerText(), /^Cancelled/);
      await editor.shot("cancelled");
    },
  );
}

journey(
  "in Restricted Mode nothing is probed, and it is said why",
  { files: { "endless.py": ENDLESS }, settings: PROBING, trust: false },
  async (editor, disk) => {
    await editor.open("endless.py");
    await probeByLens(editor, "class Endless");
    await editor.notificationSays("Remat does so only where you trust it");
    equal(existsSync(disk.at("pid")), false);
  },
);

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
