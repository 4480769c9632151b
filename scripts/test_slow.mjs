/** `npm run test:slow`: what takes minutes each: long tests, and the packages of every platform. */

import { packageFor } from "./package.mjs";
import { orExit } from "./setup/exit.mjs";
import { prepareTorch } from "./setup/torch.mjs";
import { prepareVenv } from "./setup/venv.mjs";
import { pytest, runStages } from "./stages.mjs";
import { PLATFORMS } from "./wheels.mjs";

function packaged(target) {
  return {
    name: `package for ${target}`,
    run: () => packageFor(target).then(() => ({ passed: 1, failed: 0 })),
  };
}

await orExit(async () => {
  await prepareVenv();
  const stages = [
    pytest("long tests", ["tests", "-m", "slow"], { prepare: prepareTorch }),
    ...Object.keys(PLATFORMS).map(packaged),
  ];
  process.exitCode = await runStages(stages, { strict: true });
});
