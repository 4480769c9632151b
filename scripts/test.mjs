/** `npm test`: everything that proves Remat right. Under CI a part that is missing fails. */

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { packageFor } from "./package.mjs";
import { prepareChromium } from "./setup/chromium.mjs";
import { prepareCodeServer } from "./setup/code_server.mjs";
import { prepareEditors } from "./setup/editors.mjs";
import { orExit } from "./setup/exit.mjs";
import { prepareNodeModules } from "./setup/node_modules.mjs";
import { HOST_TARGET, inVenv, ROOT } from "./setup/paths.mjs";
import { prepareTorch } from "./setup/torch.mjs";
import { prepareVenv } from "./setup/venv.mjs";
import { check, nodeTests, pytest, runStages } from "./stages.mjs";

const EDITOR_TESTS = join(ROOT, "tests", "editor");

function stages() {
  const nodeTool = (...path) => join(ROOT, "node_modules", ...path);
  const journeys = readdirSync(EDITOR_TESTS).filter((name) => name.endsWith(".test.mjs"));
  return [
    check("format of the Python code", inVenv("ruff"), ["format", "--check", "--quiet", ...PYTHON]),
    check("lint of the Python code", inVenv("ruff"), ["check", ...PYTHON]),
    check("types of the Python code", inVenv("mypy"), []),
    check("format and lint of the TypeScript code", process.execPath, [
      nodeTool("@biomejs", "biome", "bin", "biome"),
      "ci",
    ]),
    ...[".", "extension/report/page", "extension/probe/page"].map((part) =>
      check(`types of the TypeScript code in ${part}`, process.execPath, [
        nodeTool("typescript", "bin", "tsc"),
        "-p",
        part,
      ]),
    ),
    pytest("units, rules and generated documents", [
      "tests",
      "--ignore=tests/proofs",
      "--ignore=tests/probe",
      "--ignore=tests/failures",
      "--ignore=tests/lsp",
      ...NOT_SLOW,
    ]),
    pytest("language server", ["tests/lsp", "--ignore=tests/lsp/with_torch", ...NOT_SLOW], { prepare: prepareEditors }),
    pytest("proofs and failing programs on torch", ["tests/proofs", "tests/failures", ...NOT_SLOW], {
      prepare: prepareTorch,
    }),
    pytest("memory probe", ["tests/probe", "tests/lsp/with_torch", ...NOT_SLOW], { prepare: prepareTorch }),
    nodeTests("journeys in VS Code", inEditor(journeys.filter((name) => !ofProbe(name))), { prepare: prepareEditor }),
    nodeTests("journeys of the memory probe in VS Code", inEditor(journeys.filter(ofProbe)), {
      prepare: async () => {
        await prepareTorch();
        await prepareEditor();
      },
    }),
  ];
}

function ofProbe(name) {
  return name.startsWith("probe");
}

function inEditor(names) {
  return names.map((name) => join(EDITOR_TESTS, name));
}

/** Where our Python code is; `examples/` has mistakes on purpose, and the code in `docs/` is generated. */
const PYTHON = ["server", "tests", "bench", "scripts"];
const NOT_SLOW = ["-m", "not slow"];

async function prepareEditor() {
  await prepareChromium();
  await prepareCodeServer();
  process.env.REMAT_VSIX = await packageFor(HOST_TARGET); // all journeys test the same one
}

await orExit(async () => {
  console.log("set-up");
  await prepareNodeModules();
  await prepareVenv();
  process.exitCode = await runStages(stages(), { strict: process.env.CI === "true" });
});
