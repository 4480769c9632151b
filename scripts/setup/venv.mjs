/** `.venv` with Remat's Python side and its tools. */

import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { aptInstall, canApt } from "./apt.mjs";
import { inVenv, ROOT, VENV } from "./paths.mjs";
import { capture, Failed, quietly } from "./run.mjs";
import { once } from "./step.mjs";

const PYTHONS =
  process.platform === "win32"
    ? ["python", "py"]
    : ["python3", ...[14, 13, 12, 11, 10].map((minor) => `python3.${minor}`), "python"];
const IS_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 10))";

export async function prepareVenv() {
  const metadata = readFileSync(join(ROOT, "pyproject.toml"), "utf8");
  const dependencies = metadata.slice(0, metadata.indexOf("[tool."));
  await once(join(VENV, ".remat-stamp"), [dependencies], "Python environment (.venv)", async () => {
    if (!(await works(inVenv("python")))) await create();
    await quietly(inVenv("python"), ["-m", "pip", "install", "--quiet", "--editable", `${ROOT}[dev]`]);
  });
}

async function create() {
  rmSync(VENV, { recursive: true, force: true });
  const python = await findPython();
  const made = () => capture(python, ["-m", "venv", VENV]);
  let { code, output } = await made();
  if (code !== 0 && /ensurepip/.test(output) && canApt()) {
    await aptInstall(["python3-venv"]); // Debian's Python comes without it
    ({ code, output } = await made());
  }
  if (code !== 0) throw new Failed(`${python} -m venv ${VENV} failed:\n${output.trim()}`);
}

async function findPython() {
  for (const python of PYTHONS) {
    if (await works(python)) return python;
  }
  throw new Failed(
    `expected a Python 3.10 or later on PATH, tried ${PYTHONS.join(", ")}; install one and run this again`,
  );
}

async function works(python) {
  if (python.startsWith(VENV) && !existsSync(python)) return false;
  return capture(python, ["-c", IS_NEW_ENOUGH]).then(
    ({ code }) => code === 0,
    () => false,
  );
}
