/** Stages of a test run: each is done, timed and counted, whatever became of the one before. */

import { run as runTests } from "node:test";
import { inVenv } from "./setup/paths.mjs";
import { capture, Failed } from "./setup/run.mjs";
import { seconds } from "./setup/step.mjs";

/** A stage that is one check: it passes or it fails, and says why. */
export function check(name, command, args) {
  return {
    name,
    run: async () => {
      const { code, output } = await capture(command, args);
      if (code !== 0) console.log(beginning(output));
      return code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
    },
  };
}

/** A tool that finds fault everywhere says enough with its first lines. */
function beginning(output) {
  const lines = output.trimEnd().split("\n");
  const more = lines.length - MOST_LINES;
  return more > 0 ? [...lines.slice(0, MOST_LINES), `... and ${more} more lines`].join("\n") : lines.join("\n");
}

const MOST_LINES = 80;

/** A stage of pytest; its progress is shown. */
export function pytest(name, args, { prepare } = {}) {
  return {
    name,
    prepare,
    run: async () => {
      const all = ["-m", "pytest", "-q", "--no-header", "--durations=3", ...args];
      const { code, output } = await capture(inVenv("python"), all, { echo: (text) => process.stdout.write(text) });
      return counted(output, code);
    },
  };
}

function counted(output, code) {
  const summary = output.trimEnd().split("\n").at(-1) ?? "";
  const count = (word) => Number(new RegExp(`(\\d+) ${word}`).exec(summary)?.[1] ?? 0);
  const failed = count("failed") + count("error");
  // No test found, or pytest itself broke: that is a failure too.
  return { passed: count("passed"), failed: code === 0 ? failed : Math.max(failed, 1) };
}

/** A stage of Node's own tests, one file after the other. */
export function nodeTests(name, files, { prepare } = {}) {
  return {
    name,
    prepare,
    run: async () => {
      const counts = { passed: 0, failed: 0 };
      const report = (mark, { name: title, details }) =>
        console.log(`  ${mark} ${title} (${(details.duration_ms / 1000).toFixed(1)} s)`);
      const events = runTests({ files, concurrency: 1 });
      events.on("test:pass", (test) => {
        counts.passed += 1;
        report("✓", test);
      });
      events.on("test:fail", (test) => {
        counts.failed += 1;
        report("✗", test);
        const { error } = test.details;
        console.log(String(error.cause?.stack ?? error.cause ?? error).replaceAll(/^/gm, "      "));
      });
      events.on("test:stdout", ({ message }) => process.stdout.write(message));
      await new Promise((resolve) => events.on("end", resolve).resume());
      return counts;
    },
  };
}

/** Does the stages in order; returns the exit code. With `strict` a part that is missing on this machine fails. */
export async function runStages(stages, { strict }) {
  const start = performance.now();
  const results = [];
  for (const [index, stage] of stages.entries()) {
    console.log(`\n[${index + 1}/${stages.length}] ${stage.name}`);
    const begun = performance.now();
    const result = await runStage(stage, strict);
    results.push({ ...result, name: stage.name });
    console.log(`[${index + 1}/${stages.length}] ${stage.name}: ${inWords(result)} in ${seconds(begun)}`);
  }
  return summary(results, start);
}

async function runStage(stage, strict) {
  try {
    await stage.prepare?.();
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    console.log(`  ${error.message}`);
    return { passed: 0, failed: strict ? 1 : 0, skipped: !strict };
  }
  return stage.run();
}

function summary(results, start) {
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  const named = (isSo) => results.filter(isSo).map(({ name }) => name);
  console.log("");
  for (const name of named(({ failed }) => failed > 0)) console.log(`failed: ${name}`);
  for (const name of named(({ skipped }) => skipped)) console.log(`not run, because a part is missing here: ${name}`);
  console.log(`all stages took ${seconds(start)}`);
  console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
  return sum("failed") > 0 ? 1 : 0;
}

function inWords({ passed, failed, skipped }) {
  return skipped ? "not run" : `${passed} passed, ${failed} failed`;
}
