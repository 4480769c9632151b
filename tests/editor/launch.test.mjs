import { equal, match } from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { join } from "node:path";
import { before, test } from "node:test";
import { packageFor } from "../../scripts/package.mjs";
import { HOST_TARGET, inVenv, ROOT } from "../../scripts/setup/paths.mjs";

const LAUNCHER = join(ROOT, "dist", "stage", HOST_TARGET, "extension", "launch.py");

before(async () => process.env.REMAT_VSIX ?? (await packageFor(HOST_TARGET)));

test("a Python is asked what it is without starting the server", () => {
  const facts = check("useBundled");
  equal(facts.implementation, "CPython");
  match(facts.version, /^3\.\d+\.\d+/);
  equal(facts.fault, null);
});

test("the packed libraries are all that the server needs", async () => {
  // -S: no site-packages, so nothing but the standard library and what is packed can be imported.
  const answer = await initialize(inVenv("python"), ["-S", "-s", "-E", "-X", "utf8", LAUNCHER, "useBundled"]);
  match(answer, /"capabilities"/);
});

test("fromEnvironment takes the remat package of the environment", async () => {
  equal(check("fromEnvironment").fault, null);
  match(await initialize(inVenv("python"), ["-s", "-E", "-X", "utf8", LAUNCHER, "fromEnvironment"]), /"capabilities"/);
});

function check(strategy) {
  return JSON.parse(execFileSync(inVenv("python"), ["-s", "-E", LAUNCHER, "--check", strategy], { encoding: "utf8" }));
}

/** What the server answers to the first request, or its last words. */
function initialize(python, args) {
  const request = {
    jsonrpc: "2.0",
    id: 1,
    method: "initialize",
    params: { processId: null, rootUri: null, capabilities: {} },
  };
  const body = JSON.stringify(request);
  return new Promise((resolve) => {
    const server = spawn(python, args);
    let output = "";
    for (const stream of [server.stdout, server.stderr]) {
      stream.on("data", (chunk) => {
        output += chunk;
        if (output.includes('"capabilities"')) server.stdin.end();
      });
    }
    server.on("close", () => resolve(output));
    server.stdin.write(`Content-Length: ${body.length}\r\n\r\n${body}`);
  });
}
