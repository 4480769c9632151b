/** torch and transformers for the proofs: those of the environment, else the pinned pair. */

import { inVenv } from "./paths.mjs";
import { capture, quietly } from "./run.mjs";
import { timed } from "./step.mjs";

const PINNED = ["torch==2.13.0", "transformers==5.24.0"];
const SIZE = "about 200 MB where a CPU build is found, else about 3 GB with the CUDA libraries";
const IS_INSTALLED =
  "from importlib.util import find_spec as f; import sys; sys.exit(not (f('torch') and f('transformers')))";

export async function prepareTorch() {
  const { code } = await capture(inVenv("python"), ["-c", IS_INSTALLED]);
  if (code === 0) return;
  await timed(`${PINNED.join(" and ")} for the proofs (${SIZE})`, () =>
    // Together: two installs would let the second one move the first.
    quietly(inVenv("python"), ["-m", "pip", "install", "--quiet", ...PINNED]),
  );
}
