import { equal } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { SAFE_AND_UNSAFE, TWO_FINDINGS } from "./harness/programs.mjs";

journey(
  "Fix All Safe Problems repairs what is safe and leaves the rest",
  { files: { "train.py": SAFE_AND_UNSAFE } },
  async (editor, disk) => {
    await editor.open("train.py");
    await editor.squigglesBecome(2);
    await editor.shot("before");
    await editor.command("Remat: Fix All Safe Problems");
    await editor.squigglesBecome(1);
    await editor.save();
    equal(disk.read("train.py"), SAFE_AND_UNSAFE.replace("(first, x)", "(first, x, use_reentrant=False)"));
    await editor.shot("after");
  },
);

const ON_SAVE = { "[python]": { "editor.codeActionsOnSave": { "source.fixAll.remat": "explicit" } } };

journey(
  "safe problems are fixed on save where the user set that",
  { files: { "train.py": TWO_FINDINGS }, settings: ON_SAVE },
  async (editor, disk) => {
    await editor.open("train.py");
    await editor.squigglesBecome(2);
    await editor.goTo("second = Block()");
    await editor.press("End");
    await editor.type("  # two layers");
    await editor.save();
    await editor.squigglesBecome(0);
    await editor.until("both repairs on disk", () => disk.read("train.py").split("use_reentrant=False").length === 3);
  },
);

journey(
  "all findings of one rule are fixed from one of them",
  { files: { "train.py": TWO_FINDINGS } },
  async (editor) => {
    await editor.open("train.py");
    await editor.squigglesBecome(2);
    await editor.goTo("checkpoint(first");
    await editor.quickFixes();
    await editor.shot("quick-fixes");
    await editor.choose("in this file");
    await editor.squigglesBecome(0);
  },
);

journey("where nothing is safe to fix, fix all says so", { files: { "train.py": "x = 1\n" } }, async (editor, disk) => {
  await editor.open("train.py");
  await editor.command("Remat: Fix All Safe Problems");
  await editor.notificationSays("nothing in this file that is safe to fix");
  equal(disk.read("train.py"), "x = 1\n");
});
