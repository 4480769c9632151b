/** A Chromium for the editor tests. */

import { need, onPath } from "./apt.mjs";

const PROGRAMS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

export async function prepareChromium() {
  if (process.env.REMAT_CHROMIUM) return process.env.REMAT_CHROMIUM;
  await need(() => onPath(...PROGRAMS), ["chromium"], "Chromium, which the editor tests drive,");
  return onPath(...PROGRAMS);
}
