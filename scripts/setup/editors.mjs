/** The editors other than VS Code that the language server's tests drive; where they cannot be had, the tests say how. */

import { aptInstall, canApt, onPath } from "./apt.mjs";
import { Failed } from "./run.mjs";
import { timed } from "./step.mjs";

const PACKAGES = { nvim: ["neovim"], emacs: ["emacs-nox", "elpa-eglot"] };

export async function prepareEditors() {
  const missing = Object.keys(PACKAGES).filter((command) => !onPath(command));
  if (missing.length === 0 || !canApt()) return;
  try {
    await timed(`${missing.join(" and ")} for the language server's tests`, () =>
      aptInstall(missing.flatMap((command) => PACKAGES[command])),
    );
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    console.log(`  ${error.message}`);
  }
}
