import { deepEqual } from "node:assert/strict";
import { inVenv } from "../../scripts/setup/paths.mjs";
import { journey } from "./harness/journey.mjs";
import { ONE_FINDING } from "./harness/programs.mjs";

journey(
  "an interpreter that does not exist is named, and findings come all the same",
  { files: { "train.py": ONE_FINDING }, settings: { "remat.interpreter": "/nowhere/python" } },
  async (editor) => {
    await editor.open("train.py");
    await editor.notificationSays("/nowhere/python does not exist");
    deepEqual((await editor.notifications()).length, 1);
    await editor.shot("named");
    await editor.squigglesBecome(1);
  },
);

/** Answers as `launch.py --check` would under a Python 3.8. */
const OLD_PYTHON = `#!/bin/sh
echo '{"executable": "'"$0"'", "version": "3.8.18", "implementation": "CPython", "torch": false, "fault": "Python 3.10 or later is needed"}'
`;

journey(
  "without a Python that is new enough the message says what is needed and what was found",
  {
    files: { "train.py": ONE_FINDING, "bin/python3": OLD_PYTHON },
    executable: ["bin/python3"],
    settings: { "remat.interpreter": null },
    path: (disk) => disk.at("bin"),
  },
  async (editor) => {
    await editor.open("train.py");
    await editor.notificationSays(
      "Remat needs a CPython between 3.10 and 3.14, found only PATH: python3 is CPython 3.8.18",
    );
    deepEqual((await editor.notifications()).length, 1);
    await editor.shot("too-old");
  },
);

/** What the Python extension tells others, as far as Remat asks. */
const PYTHON_EXTENSION = {
  "package.json": JSON.stringify({
    name: "python",
    publisher: "ms-python",
    version: "0.0.1",
    engines: { vscode: "^1.93.0" },
    main: "./main.js",
    activationEvents: ["onLanguage:python"],
  }),
  "main.js": `
    const vscode = require("vscode");
    const executable = { uri: vscode.Uri.file(${JSON.stringify(inVenv("python"))}) };
    exports.activate = () => ({
      environments: {
        getActiveEnvironmentPath: () => ({ id: "project", path: executable.uri.fsPath }),
        resolveEnvironment: async () => ({ executable }),
        onDidChangeActiveEnvironmentPath: new vscode.EventEmitter().event,
      },
    });`,
};

journey(
  "the interpreter chosen in the Python extension is used",
  {
    files: { "train.py": ONE_FINDING },
    settings: { "remat.interpreter": null },
    extensions: { "ms-python.python-0.0.1": PYTHON_EXTENSION },
  },
  async (editor, _disk, profile) => {
    await editor.open("train.py");
    await editor.squigglesBecome(1);
    await editor.command("Remat: Show Debug Information");
    await editor.line("the Python extension:").first().waitFor();
    await editor.shot("debug-information");
    deepEqual(profile.log().includes(`the Python extension: ${inVenv("python")}`), true);
  },
);
