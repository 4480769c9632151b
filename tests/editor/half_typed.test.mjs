import { match } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { TWO_FINDINGS } from "./harness/programs.mjs";

journey(
  "while a line is half typed the findings elsewhere stay",
  { files: { "train.py": `${TWO_FINDINGS}\n\n# end\n` } },
  async (editor) => {
    await editor.open("train.py");
    await editor.squigglesBecome(2);
    await editor.goTo("# end");
    await editor.press("Home");
    await editor.type("y = checkpoint(first, (");
    await editor.page.waitForTimeout(1500); // long enough for any answer about the broken text
    await editor.squigglesBecome(2);
    await editor.shot("half-typed");
    // Typed anew as a whole: what VS Code closed by itself is part of the line, and differs with what follows it.
    await editor.press("Home");
    await editor.press("Shift+End");
    await editor.type("y = checkpoint(first, (1, 2), x)");
    await editor.squigglesBecome(3);
  },
);

journey(
  "a finding on a line that is being rewritten stays, without its fix",
  { files: { "train.py": TWO_FINDINGS } },
  async (editor) => {
    await editor.open("train.py");
    await editor.squigglesBecome(2);
    await editor.goTo("(second, x)");
    await editor.press("End");
    await editor.press("Backspace");
    await editor.page.waitForTimeout(1500);
    await editor.squigglesBecome(2);
    await editor.shot("rewriting");
    await editor.type(")");
    await editor.goTo("checkpoint(second");
    await editor.until("the fix is offered again", async () => {
      const titles = await editor.quickFixes();
      await editor.press("Escape");
      return titles.some((title) => title.includes("use_reentrant=False"));
    });
    match((await editor.problemsBecome(2)).join("\n"), /use_reentrant/);
  },
);
