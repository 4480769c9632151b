import { equal } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { ONE_FINDING, RULE, TWO_FINDINGS } from "./harness/programs.mjs";

journey(
  "Ctrl+. writes the fix to disk and the finding is gone",
  { files: { "train.py": TWO_FINDINGS } },
  async (editor, disk) => {
    await editor.open("train.py");
    await editor.squigglesBecome(2);
    await editor.goTo("checkpoint(second");
    await editor.quickFixes();
    await editor.shot("quick-fixes");
    await editor.choose("use_reentrant=False");
    await editor.squigglesBecome(1);
    await editor.save();
    equal(disk.read("train.py"), TWO_FINDINGS.replace("(second, x)", "(second, x, use_reentrant=False)"));
    await editor.problemsBecome(1);
    await editor.shot("fixed");
  },
);

journey(
  "suppressing here adds the comment, and the finding is gone",
  { files: { "train.py": ONE_FINDING } },
  async (editor, disk) => {
    await editor.open("train.py");
    await editor.squigglesBecome(1);
    await editor.goTo("checkpoint(first");
    await editor.quickFixes();
    await editor.choose("Suppress");
    await editor.squigglesBecome(0);
    await editor.save();
    equal(disk.read("train.py"), ONE_FINDING.replace("(first, x)\n", `(first, x)  # remat: ignore[${RULE}]\n`));
    await editor.shot("suppressed");
  },
);

journey(
  "a suppression that suppresses nothing is greyed out, and is removed by its fix",
  { files: { "train.py": `x = 1  # remat: ignore[${RULE}]\n` } },
  async (editor, disk) => {
    await editor.open("train.py");
    await editor.greyed().first().waitFor();
    await editor.shot("unused");
    await editor.goTo("remat: ignore");
    await editor.quickFixes();
    await editor.choose("Remove the unused suppression");
    await editor.greyed().first().waitFor({ state: "detached" });
    await editor.save();
    equal(disk.read("train.py"), "x = 1\n");
  },
);
