import { match, ok } from "node:assert/strict";
import { existsSync } from "node:fs";
import { journey } from "./harness/journey.mjs";
import { ONE_FINDING } from "./harness/programs.mjs";

/** A workspace that would run a program of its own as soon as anything in it is believed. */
const TRAP = '#!/bin/sh\ntouch "$(dirname "$0")/sprung"\n';
const PROGRAMS = ["trap/python", ".venv/bin/python"];
const HOSTILE = {
  "train.py": ONE_FINDING,
  "trap/python": TRAP,
  ".venv/bin/python": TRAP,
  ".vscode/settings.json": JSON.stringify({
    "remat.interpreter": "${workspaceFolder}/trap/python",
    "remat.path": "${workspaceFolder}/trap/python",
  }),
};

journey(
  "in Restricted Mode there are findings, and nothing of the workspace is run",
  { files: HOSTILE, trust: false, executable: PROGRAMS },
  async (editor, disk) => {
    await editor.open("train.py");
    await editor.squigglesBecome(1);
    match(await editor.page.locator(".part.banner").innerText(), /Restricted Mode/);
    await editor.shot("restricted");
    for (const path of ["trap/sprung", ".venv/bin/sprung"])
      ok(!existsSync(disk.at(path)), `${path} shows that it was run`);
  },
);
