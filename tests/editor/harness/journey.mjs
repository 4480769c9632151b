/**
 * One journey of a user: a project on disk, a fresh VS Code with the packaged extension, a browser, and what happens.
 * None may lead to another machine.
 */

import { equal } from "node:assert/strict";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { chromium } from "playwright-core";
import { installExtension, profileIn, QUIET, startEditor } from "../../../scripts/browser_editor.mjs";
import { packageFor } from "../../../scripts/package.mjs";
import { prepareChromium } from "../../../scripts/setup/chromium.mjs";
import { prepareCodeServer } from "../../../scripts/setup/code_server.mjs";
import { HOST_TARGET, inVenv, OUTPUT, ROOT } from "../../../scripts/setup/paths.mjs";
import { once } from "../../../scripts/setup/step.mjs";
import { watchConnections } from "./network.mjs";
import { Workbench } from "./workbench.mjs";

const SCREENSHOTS = join(OUTPUT, "editor");
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/**
 * `files`: path to text. `folders`: roots of a multi-root workspace. `extensions`: name to files, there beside ours.
 * `executable`: files that are programs. `path`: what the editor finds as PATH.
 */
export function journey(
  name,
  { files, settings = {}, trust = true, folders, extensions = {}, executable = [], path },
  body,
) {
  test(name, { timeout: 180_000 }, async () => {
    const place = realpathSync(mkdtempSync(join(tmpdir(), "remat-journey-")));
    const disk = diskAt(join(place, "project"));
    const undo = [() => rmSync(place, { recursive: true, force: true, maxRetries: 5 })];
    try {
      for (const [path, text] of Object.entries(files)) disk.write(path, text);
      for (const program of executable) chmodSync(disk.at(program), 0o755);
      const command = await prepareCodeServer();
      const installed = await extensionsFolder(command, extensions, place);
      const given = { ...QUIET, ...TESTED, "remat.interpreter": inVenv("python"), ...settings };
      const profile = profileAt(place, given, installed);
      const editor = await startEditor(command, profile, { trust, path: path?.(disk) });
      undo.push(editor.stop);
      const { page, close } = await openBrowser(join(place, "browser"), editor.url);
      undo.push(close);
      const network = watchConnections(editor.pid, page);
      undo.push(network.stop);
      const workbench = new Workbench(page, join(SCREENSHOTS, slug(name)), profile.log);
      await explainedWhereItFails(workbench, profile, async () => {
        await page.goto(`${editor.url}/?${disk.query(folders)}`);
        await workbench.ready();
        await body(workbench, disk, profile);
        equal(network.stop(), "", "connections to another machine");
      });
    } finally {
      for (const step of undo.reverse()) await step();
    }
  });
}

/** What makes an editor easier to drive, and leaves what is tested as it is. */
const TESTED = {
  "editor.lightbulb.enabled": "on",
  "editor.minimap.enabled": false,
  "editor.accessibilitySupport": "off",
  "files.autoSave": "off",
  "window.restoreWindows": "none",
  "terminal.integrated.gpuAcceleration": "off", // its rows are text then
  "terminal.integrated.stickyScroll.enabled": false, // is a second terminal above the first
  "terminal.integrated.defaultProfile.linux": "bash",
};

async function explainedWhereItFails(workbench, profile, body) {
  try {
    await body();
  } catch (error) {
    await workbench.shot("FAILED").catch(() => undefined);
    error.stack += `\nRemat's log:\n${profile.log()}`;
    throw error;
  }
}

/** A folder with our extension installed: one for all journeys, or one with others beside it. */
async function extensionsFolder(command, others, place) {
  const vsix = process.env.REMAT_VSIX ?? (await packageFor(HOST_TARGET));
  const own = Object.keys(others).length > 0;
  const folder = own ? join(place, "extensions") : join(ROOT, "dist", "installed");
  for (const [id, parts] of Object.entries(others)) writeFiles(join(folder, id), parts);
  const install = () => installExtension(command, profileIn(join(place, "install"), {}, folder), vsix);
  if (own) await install();
  else await once(`${folder}.remat-stamp`, [folder, statSync(vsix).mtimeMs], "installation in VS Code", install);
  return folder;
}

/** Where the editor keeps its settings and writes its logs. */
function profileAt(place, settings, extensions) {
  const profile = profileIn(place, settings, extensions);
  const log = () => {
    const path = readdirSync(profile.user, { recursive: true }).find((name) => name.endsWith("Remat.log"));
    return path ? readFileSync(join(profile.user, path), "utf8") : "(none)";
  };
  return {
    ...profile,
    log,
    set: (changed) => profileIn(place, Object.assign(settings, changed), extensions),
    serverPid: () =>
      Number(
        log()
          .match(/process \d+/g)
          ?.at(-1)
          ?.slice("process ".length),
      ),
  };
}

function diskAt(root) {
  const at = (path) => join(root, path);
  return {
    at,
    read: (path) => readFileSync(at(path), "utf8"),
    write: (path, text) => writeFiles(root, { [path]: text }),
    query: (folders) => {
      if (!folders) return `folder=${encodeURIComponent(root)}`;
      const workspace = { folders: folders.map((path) => ({ path })) };
      writeFiles(root, { "two.code-workspace": JSON.stringify(workspace) });
      return `workspace=${encodeURIComponent(at("two.code-workspace"))}`;
    },
  };
}

function writeFiles(root, files) {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
}

async function openBrowser(folder, origin) {
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: await prepareChromium(),
    headless: true,
    viewport: { width: 1400, height: 860 },
    args: FLAGS,
  });
  // Without this the first use of the clipboard hangs behind a question.
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin });
  return { page: context.pages()[0] ?? (await context.newPage()), close: () => context.close() };
}

function slug(name) {
  return name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "")
    .slice(0, 60);
}
