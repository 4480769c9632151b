/** torch and what stands on it, for the proofs and the failing programs: what the environment has, else the pinned. */

import { inVenv } from "./paths.mjs";
import { capture, quietly } from "./run.mjs";
import { timed } from "./step.mjs";

const PINNED = { torch: "2.13.0", transformers: "5.24.0", accelerate: "1.15.0", peft: "0.21.2" };
const SIZE = "about 200 MB where a CPU build is found, else about 3 GB with the CUDA libraries";
const IS_INSTALLED = "from importlib.util import find_spec; import sys; sys.exit(find_spec(sys.argv[1]) is None)";

export async function prepareTorch() {
  const installed = async (name) => (await capture(inVenv("python"), ["-c", IS_INSTALLED, name])).code === 0;
  const found = await Promise.all(Object.keys(PINNED).map(installed));
  const missing = Object.entries(PINNED).filter((_, at) => !found[at]);
  if (missing.length === 0) return;
  const wanted = missing.map(([name, version]) => `${name}==${version}`);
  const size = wanted.some((name) => name.startsWith("torch=")) ? ` (${SIZE})` : "";
  await timed(`${wanted.join(", ")} for the proofs and the failing programs${size}`, () =>
    // Together: two installs would let the second one move the first.
    quietly(inVenv("python"), ["-m", "pip", "install", "--quiet", ...wanted]),
  );
}
