import { deepEqual, equal, match, ok } from "node:assert/strict";
import { existsSync } from "node:fs";
import { FAILING, IN_TERMINAL } from "./harness/failing.mjs";
import { journey } from "./harness/journey.mjs";
import { ERROR_FILE, fourRanks, HOSTILE, SECRET } from "./harness/logs.mjs";

journey(
  "a log file of four ranks, from the explorer: where it began, what followed, and what checks it",
  { files: { ...FAILING, "run.log": fourRanks() }, settings: IN_TERMINAL },
  async (editor, disk, profile) => {
    disk.write("../elsewhere/error.json", ERROR_FILE);
    disk.write("run.log", fourRanks(disk.at("../elsewhere/error.json").replace("project/../", "")));
    await editor.extensionRuns();
    await editor.menu(await editor.inExplorer("run.log"), "Diagnose Log File");
    const report = await editor.report();
    match(await report.locator("h1").innerText(), /^Rank 1: A DataLoader worker died of a bus error/);
    equal(await report.locator("#followed li").count(), 3);
    await editor.shot("report");

    await report.locator("#began .proof .link").first().press("Enter");
    match(await report.locator("li:focus").innerText(), /rank1.*train\.py/s);
    await editor.shot("proving-line");
    await report.locator("#log .link", { hasText: "train.py" }).first().press("Enter");
    await editor.cursorIsAt(22);

    await report.getByRole("button", { name: "Copy as Markdown" }).click();
    await report.getByText("Copied, with secrets").waitFor();
    const copied = await editor.clipboard();
    const markdown = copied.replaceAll("\\", ""); // what is masked is so however Markdown is escaped
    match(markdown, /HF_TOKEN=\*\*\*, cache \/home\/\*\*\*/); // where they were
    ok(![SECRET.slice(0, 6), "alice"].some((word) => markdown.includes(word)), markdown);

    const ofEarlierReport = await report.getByRole("button", { name: "Read /" }).elementHandle();
    await report.getByRole("button", { name: "Read /" }).click();
    await report.getByText("read, and part of this report").waitFor();
    await report.locator("#verify").scrollIntoViewIfNeeded();
    await editor.shot("evidence-read");

    await report.getByRole("button", { name: "Run in terminal" }).click();
    await editor.terminalSays("Filesystem");
    await editor.shot("checked");

    disk.write("second.log", disk.read("run.log").replace("elsewhere/error.json", "elsewhere/second/error.json"));
    disk.write("../elsewhere/second/error.json", ERROR_FILE);
    await editor.menu(await editor.inExplorer("second.log"), "Diagnose Log File");
    await report.getByRole("button", { name: /Read .*second/ }).waitFor();
    await ofEarlierReport.evaluate((button) => button.click());
    await editor.page.waitForTimeout(1500);
    await report.getByRole("button", { name: /Read .*second/ }).waitFor(); // nobody has permitted this one
    equal(await report.getByText("read, and part of this report").count(), 0);

    for (const theme of ["Default High Contrast", "Default Dark Modern"]) {
      profile.set({ "workbench.colorTheme": theme });
      await editor.page.waitForTimeout(1500);
      await editor.shot(theme);
    }
  },
);

journey(
  "nothing that a log says can act: markup, links, escapes and letters that turn text around are text",
  { files: { "hostile.log": HOSTILE, "train.py": "x = 1\n" }, settings: IN_TERMINAL },
  async (editor, disk) => {
    await editor.extensionRuns();
    await editor.command("Remat: Diagnose Log File…");
    await editor.chooseFile(disk.at("hostile.log"));
    const report = await editor.report();
    await editor.shot("report");
    equal(await report.locator("img, script, iframe, a, b, i, object, embed, form, svg, style").count(), 0);
    const text = await report.innerText();
    for (const part of ["<b>bold</b>", "&lt;", "<iframe src=", "<script>document.body", "$(touch owned)"]) {
      ok(text.includes(part), `${part} is not shown as text in:\n${text}`);
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be there
    ok(!/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u000e-\u001f]/.test(text), "a letter that acts is on the page");
    for (const place of await report.getByRole("link").all()) await place.click();
    await editor.page.waitForTimeout(1000);
    ok(!existsSync(disk.at("owned")));
    equal(await editor.page.locator(".tab", { hasText: "Untitled" }).count(), 0);
    await report.getByRole("button", { name: "Copy as Markdown" }).click();
    await report.getByText("Copied").waitFor();
    ok(!(await editor.clipboard()).includes("\u202e"));
  },
);

journey(
  "in Restricted Mode the logs of a folder are diagnosed as one run, and the command that checks it waits for trust",
  { files: { ...FAILING, ...oneFileEach(fourRanks()) }, settings: IN_TERMINAL, trust: false },
  async (editor) => {
    await editor.extensionRuns();
    await editor.menu(await editor.inExplorer("logs"), "Diagnose Log Folder");
    const report = await editor.report();
    match(await report.locator("h1").innerText(), /^Rank 1: A DataLoader worker died of a bus error/);
    equal(await report.locator("#followed li").count(), 3);
    const files = await report.locator("#log li.file").allInnerTexts();
    deepEqual(
      files,
      [0, 1, 2, 3].map((rank) => `rank_${rank}.log`),
    ); // each from its first line
    await report.locator("#log").scrollIntoViewIfNeeded();
    await editor.shot("files");
    const run = report.getByRole("button", { name: "Run in terminal" });
    ok(await run.isDisabled());
    match(await report.locator("#verify").innerText(), /not trusted/);
    await run.scrollIntoViewIfNeeded();
    await editor.shot("restricted");
  },
);

/** The lines of each rank in a file of its own, as a launcher that redirects them writes them. */
function oneFileEach(log) {
  const of = (rank) => log.split("\n").filter((line) => line.startsWith(`[rank${rank}]`));
  return Object.fromEntries([0, 1, 2, 3].map((rank) => [`logs/rank_${rank}.log`, of(rank).join("\n")]));
}

/** Answers as `launch.py --check` would under a Python 3.8. */
const OLD_PYTHON = `#!/bin/sh
echo '{"executable": "'"$0"'", "version": "3.8.18", "implementation": "CPython", "torch": false, "fault": "Python 3.10 or later is needed"}'
`;

journey(
  "without a server the report says why, and offers to start it",
  {
    files: { "run.log": fourRanks(), "bin/python3": OLD_PYTHON },
    executable: ["bin/python3"],
    settings: { ...IN_TERMINAL, "remat.interpreter": null, "remat.showNotifications": "off" },
    path: (disk) => disk.at("bin"),
  },
  async (editor, _disk, profile) => {
    await editor.extensionRuns();
    await editor.menu(await editor.inExplorer("run.log"), "Diagnose Log File");
    const report = await editor.report("No diagnosis");
    match(await report.innerText(), /needs a CPython between 3\.10 and 3\.14/);
    await editor.shot("no-server");
    const { inVenv } = await import("../../scripts/setup/paths.mjs");
    profile.set({ "remat.interpreter": inVenv("python") });
    await report.getByRole("button", { name: "Restart server" }).click();
    match(await (await editor.report()).innerText(), /bus error/);
  },
);
