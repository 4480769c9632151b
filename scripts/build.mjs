/** `npm run build`: the extension's TypeScript as one file, dist/extension.js. */

import { orExit } from "./setup/exit.mjs";
import { prepareNodeModules } from "./setup/node_modules.mjs";
import { isMain, ROOT } from "./setup/paths.mjs";

export async function build() {
  await prepareNodeModules();
  const { build: bundle } = await import("esbuild");
  await bundle({
    absWorkingDir: ROOT,
    entryPoints: ["extension/extension.ts"],
    outfile: "dist/extension.js",
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node20",
    external: ["vscode"],
    minify: true,
    legalComments: "none",
  });
}

if (isMain(import.meta.url)) await orExit(build);
