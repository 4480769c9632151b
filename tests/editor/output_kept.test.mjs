/** What is kept of a terminal's output. Without an editor: the module knows nothing of VS Code. */

import { equal, match, ok } from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { ROOT } from "../../scripts/setup/paths.mjs";

let Ends;
let withinRoom;
let withoutMarks;

before(async () => {
  const outdir = mkdtempSync(join(tmpdir(), "remat-kept-"));
  const entryPoints = ["ends", "marks"].map((name) => join(ROOT, "extension", "terminal", `${name}.ts`));
  await build({ entryPoints, outdir, format: "esm", outExtension: { ".js": ".mjs" }, bundle: true });
  ({ Ends, withinRoom } = await import(pathToFileURL(join(outdir, "ends.mjs"))));
  ({ withoutMarks } = await import(pathToFileURL(join(outdir, "marks.mjs"))));
});

const ROOM = { head: 100, tail: 400 };
const LINES = Array.from({ length: 2000 }, (_, index) => `step ${index}\n`).join("");

test("a short output is kept as it is, however it arrives", () => {
  for (const size of [1, 3, 7, 1000]) equal(kept("one\ntwo\nthree\n", size), "one\ntwo\nthree\n");
});

test("of a long output the first and the last whole lines are kept, with the number of characters between", () => {
  for (const size of [1, 13, 5000, LINES.length]) {
    const text = kept(LINES, size);
    const lines = text.split("\n");
    equal(lines[0], "step 0");
    equal(lines.at(-2), "step 1999");
    const left = lines.findIndex((line) => line.startsWith("[Remat left out"));
    match(lines[left], /^\[Remat left out [\d,]+ characters here\]$/);
    for (const line of [...lines.slice(0, left), ...lines.slice(left + 1, -1)]) match(line, /^step \d+$/);
    const number = Number(/[\d,]+/.exec(lines[left])[0].replaceAll(",", ""));
    equal(text.length - lines[left].length - 1 + number, LINES.length);
  }
});

test("ten million letters, one by one, take a bounded room", () => {
  const ends = new Ends();
  for (let letter = 0; letter < 10_000_000; letter++) ends.add(letter % 80 === 79 ? "\n" : "x");
  ok(ends.text().length < 2_400_000);
});

test("one line without an end is cut in its middle", () => {
  const text = kept("x".repeat(100_000), 1000);
  match(text, /^x{100}\n\[Remat left out 99,500 characters here\]\nx{400}$/);
});

test("a selection beyond its room is cut as an output is", () => {
  equal(withinRoom("short\n", ROOM), "short\n");
  const text = withinRoom(LINES, ROOM);
  ok(text.length < 600);
  match(text, /^step 0\n(?:step \d+\n)+\[Remat left out [\d,]+ characters here\]\n(?:step \d+\n)+$/);
});

test("the marks of shell integration are taken out, whole or cut off, and what a program printed stays", () => {
  const output =
    "\u001b]633;C\u0007loss \u001b[31mnan\u001b[0m\r\n\u001b]633;D;1\u001b\\\u001b]8;;file\u0007x\u001b]633;P;Cwd=/a";
  equal(withoutMarks(output), "loss \u001b[31mnan\u001b[0m\r\n\u001b]8;;file\u0007x");
});

function kept(text, size) {
  const ends = new Ends(ROOM);
  for (let from = 0; from < text.length; from += size) ends.add(text.slice(from, from + size));
  return ends.text();
}
