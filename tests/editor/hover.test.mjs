import { match } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { ONE_FINDING } from "./harness/programs.mjs";

journey("hovering a finding shows the rule's documentation", { files: { "train.py": ONE_FINDING } }, async (editor) => {
  await editor.open("train.py");
  await editor.squigglesBecome(1);
  const hover = await editor.hover("checkpoint(first");
  await editor.until("the documentation", async () => /Fix safety/.test(await hover.innerText()));
  await editor.shot("hover");
  match(await hover.innerText(), /use_reentrant/);
});
