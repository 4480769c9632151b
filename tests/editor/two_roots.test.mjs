import { deepEqual } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { ONE_FINDING, RULE } from "./harness/programs.mjs";

const FILES = {
  "strict/train_strict.py": ONE_FINDING,
  "lenient/train_lenient.py": ONE_FINDING,
  "lenient/pyproject.toml": `[tool.remat]\nignore = ["${RULE}"]\n`,
};

journey("of two roots each has its own settings", { files: FILES, folders: ["strict", "lenient"] }, async (editor) => {
  await editor.open("train_lenient.py");
  await editor.open("train_strict.py");
  await editor.squigglesBecome(1);
  await editor.problemsBecome(1);
  await editor.shot("strict");
  await editor.open("train_lenient.py");
  await editor.squigglesBecome(0);
  deepEqual((await editor.problemsBecome(1)).length, 1);
  await editor.shot("lenient");
});
