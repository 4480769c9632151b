/** `npm run demo [-- --no-editor]`: what Remat says about examples/, then examples/ in VS Code with the extension. */

import { join } from "node:path";
import { parseArgs } from "node:util";
import { installExtension, profileIn, QUIET, startEditor } from "./browser_editor.mjs";
import { packageFor } from "./package.mjs";
import { onPath } from "./setup/apt.mjs";
import { prepareCodeServer } from "./setup/code_server.mjs";
import { orExit } from "./setup/exit.mjs";
import { CACHE, HOST_TARGET, inVenv, ROOT } from "./setup/paths.mjs";
import { Failed, quietly, show } from "./setup/run.mjs";
import { prepareVenv } from "./setup/venv.mjs";

const EXAMPLES = join(ROOT, "examples");
const FIRST_FILE = join(EXAMPLES, "train.py");

async function main() {
  const { values } = parseArgs({ options: { "no-editor": { type: "boolean", default: false } } });
  await prepareVenv();
  sayFindings();
  if (values["no-editor"]) return;
  const vsix = await packageFor(HOST_TARGET);
  const code = onPath("code", "code.cmd");
  await (code ? openInVsCode(code, vsix) : openInBrowser(vsix));
}

function sayFindings() {
  console.log("\n$ remat check examples/\n");
  const code = show(inVenv("python"), ["-m", "remat", "check", "examples/"]);
  if (code !== 0 && code !== 1) throw new Failed(`remat check examples/ ended with exit code ${code}, expected 0 or 1`);
}

/** With extensions and settings of its own: the demo leaves the user's VS Code as it is. */
async function openInVsCode(code, vsix) {
  const profile = profileIn(join(CACHE, "demo-vscode"), QUIET);
  const own = ["--user-data-dir", profile.user, "--extensions-dir", profile.extensions];
  await runCode([code, ...own, "--install-extension", vsix, "--force"]);
  await runCode([code, ...own, "--new-window", EXAMPLES, FIRST_FILE]);
  console.log(`\nVS Code is open on ${EXAMPLES}.`);
}

/** Windows runs `code.cmd` through its shell, which would cut each path at its first blank. */
function runCode([code, ...args]) {
  if (process.platform !== "win32") return quietly(code, args);
  return quietly([code, ...args].map((part) => `"${part}"`).join(" "), [], { shell: true });
}

async function openInBrowser(vsix) {
  const command = await prepareCodeServer();
  const profile = profileIn(join(CACHE, "demo-browser"), QUIET);
  await installExtension(command, profile, vsix);
  const editor = await startEditor(command, profile);
  console.log("\nVS Code's command `code` is not on PATH; VS Code in the browser is at");
  console.log(`\n  ${editor.url}/?folder=${encodeURI(EXAMPLES)}\n`);
  console.log("Open train.py there. Ctrl+C ends it.");
  process.once("SIGINT", () => editor.stop().then(() => process.exit(0)));
  process.once("SIGTERM", () => editor.stop().then(() => process.exit(0)));
}

await orExit(main);
