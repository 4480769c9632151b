/** VS Code in the browser: code-server with our extension installed, talking to this machine only. */

import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { Failed, quietly } from "./setup/run.mjs";

/** Settings that keep a fresh profile quiet: no welcome, no updates, nothing from the network. */
export const QUIET = {
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "chat.disableAIFeatures": true,
  "telemetry.telemetryLevel": "off",
  "extensions.autoUpdate": false,
  "extensions.autoCheckUpdates": false,
  "extensions.ignoreRecommendations": true,
  "update.mode": "none",
  "git.openRepositoryInParentFolders": "never",
};

/** A folder with everything an editor remembers; give a fresh one to forget. `extensions` may be shared. */
export function profileIn(folder, settings, extensions = join(folder, "extensions")) {
  const profile = { user: join(folder, "user"), extensions, home: join(folder, "home") };
  // What names a program is read from the settings of the machine, everything else from the user's.
  for (const scope of ["User", "Machine"]) {
    mkdirSync(join(profile.user, scope), { recursive: true });
    writeFileSync(join(profile.user, scope, "settings.json"), JSON.stringify(settings, null, 2));
  }
  return profile;
}

export function installExtension(command, profile, vsix) {
  const [node, entry] = command;
  const args = [entry, ...places(profile), "--install-extension", vsix, "--force"];
  return quietly(node, args, { env: environment(profile) });
}

/** Starts it on `port` (0: any that is free), with `path` as PATH, and waits until it answers. */
export async function startEditor(command, profile, { port = 0, trust = true, path = process.env.PATH } = {}) {
  const [node, entry] = command;
  const at = `127.0.0.1:${port || (await freePort())}`;
  const quiet = [
    "--disable-telemetry",
    "--disable-update-check",
    "--disable-getting-started-override",
    "--disable-proxy",
  ];
  const args = [...quiet, ...(trust ? ["--disable-workspace-trust"] : []), "--auth", "none", "--bind-addr", at];
  const child = spawn(node, [entry, ...places(profile), ...args], {
    env: { ...environment(profile), PATH: path },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const url = `http://${at}`;
  await answers(url, child, () => output);
  return { url, pid: child.pid, stop: () => stop(child), log: () => output };
}

async function answers(url, child, output) {
  for (let tries = 0; tries < 300; tries++) {
    if (child.exitCode !== null) break;
    const healthy = await fetch(`${url}/healthz`).then(
      (response) => response.ok,
      () => false,
    );
    if (healthy) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  child.kill();
  throw new Failed(`code-server did not answer at ${url}:\n${output().trim()}`);
}

function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.on("exit", resolve);
    child.kill("SIGTERM");
  });
}

function places({ user, extensions }) {
  return ["--user-data-dir", user, "--extensions-dir", extensions];
}

/**
 * `XDG_*`: else it writes into the home folder. The gallery address leads nowhere on purpose. `VSCODE_CLI`: the
 * environment is ours, not that of a login shell.
 */
function environment({ home }) {
  const gallery = JSON.stringify({ serviceUrl: "http://127.0.0.1:9/none" });
  return { ...process.env, XDG_CONFIG_HOME: home, XDG_DATA_HOME: home, EXTENSIONS_GALLERY: gallery, VSCODE_CLI: "1" };
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
