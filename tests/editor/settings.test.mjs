import { journey } from "./harness/journey.mjs";
import { ONE_FINDING, RULE } from "./harness/programs.mjs";

const PROJECT = { "train.py": ONE_FINDING, "pyproject.toml": "[tool.remat]\n" };

journey(
  "a rule ignored in pyproject.toml goes quiet at once, and comes back",
  { files: PROJECT },
  async (editor, disk) => {
    await editor.open("train.py");
    await editor.squigglesBecome(1);
    disk.write("pyproject.toml", `[tool.remat]\nignore = ["${RULE}"]\n`);
    await editor.squigglesBecome(0);
    disk.write("pyproject.toml", "[tool.remat]\n");
    await editor.squigglesBecome(1);
  },
);

journey("a mistake in [tool.remat] is named, and analysis goes on", { files: PROJECT }, async (editor, disk) => {
  await editor.open("train.py");
  await editor.squigglesBecome(1);
  disk.write("pyproject.toml", '[tool.remat]\nignore = ["no-such-rule"]\n');
  await editor.problemSays("no-such-rule");
  await editor.squigglesBecome(1);
  await editor.shot("named");
});

journey("remat.enable turns Remat off and on", { files: PROJECT }, async (editor, _disk, profile) => {
  await editor.open("train.py");
  await editor.squigglesBecome(1);
  profile.set({ "remat.enable": false });
  await editor.squigglesBecome(0);
  profile.set({ "remat.enable": true });
  await editor.squigglesBecome(1);
});
