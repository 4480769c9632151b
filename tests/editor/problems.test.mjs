import { deepEqual, match } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { RULE, TWO_FINDINGS } from "./harness/programs.mjs";

journey(
  "each finding has one row in Problems, with the rule's name",
  { files: { "train.py": TWO_FINDINGS } },
  async (editor) => {
    await editor.open("train.py");
    await editor.squigglesBecome(2);
    const rows = await editor.problemsBecome(2);
    for (const row of rows) match(row, new RegExp(`remat.*${RULE}`, "i"));
    deepEqual(rows.map((row) => /Ln (\d+)/.exec(row)?.[1]).sort(), ["19", "20"]);
    await editor.shot("problems");
  },
);

journey(
  "an edit moves the rows, and undoing it brings them back once each",
  { files: { "train.py": TWO_FINDINGS } },
  async (editor) => {
    await editor.open("train.py");
    await editor.problemsBecome(2);
    await editor.goTo("def step");
    await editor.press("Control+A");
    await editor.press("Delete");
    await editor.problemsBecome(0);
    await editor.press("Control+Z");
    await editor.problemsBecome(2);
  },
);

journey(
  "a file that was never saved has findings too",
  { files: { "train.py": "" }, settings: { "files.defaultLanguage": "python" } },
  async (editor) => {
    await editor.press("Control+Alt+N");
    await editor.typeInEditor(
      "from torch.utils.checkpoint import checkpoint\n\n\ndef step(layer, x):\nreturn checkpoint(layer, x)",
    );
    await editor.squigglesBecome(1);
    await editor.shot("untitled");
  },
);
