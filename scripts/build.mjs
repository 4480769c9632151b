/** `npm run build`: the extension's TypeScript as one file, dist/extension.js, and its pages beside it. */

import { orExit } from "./setup/exit.mjs";
import { prepareNodeModules } from "./setup/node_modules.mjs";
import { isMain, ROOT } from "./setup/paths.mjs";

export async function build() {
  await prepareNodeModules();
  const { build: bundle } = await import("esbuild");
  const common = { absWorkingDir: ROOT, bundle: true, minify: true, legalComments: "none" };
  await bundle({
    ...common,
    entryPoints: ["extension/extension.ts"],
    outfile: "dist/extension.js",
    platform: "node",
    format: "cjs",
    target: "node20",
    external: ["vscode"],
  });
  await bundle({
    ...common,
    entryPoints: {
      report: "extension/report/page/page.ts",
      "report-style": "extension/report/page/page.css",
      probe: "extension/probe/page/page.ts",
      "probe-style": "extension/probe/page/page.css",
    },
    outdir: "dist",
    platform: "browser",
    format: "iife",
    target: "chrome120",
  });
}

if (isMain(import.meta.url)) await orExit(build);
