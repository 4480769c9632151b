import { equal, match } from "node:assert/strict";
import { FAILING, IN_TERMINAL, REPAIRED, RUN } from "./harness/failing.mjs";
import { journey } from "./harness/journey.mjs";

const QUIET = { ...IN_TERMINAL, "remat.diagnoseFailedCommands": false };
const NO_SHELL_INTEGRATION = { ...QUIET, "terminal.integrated.shellIntegration.enabled": false };
const SELECT = "Remat: Diagnose Selected Traceback";

async function failed(editor) {
  await editor.openTerminal();
  await editor.run(RUN);
  await editor.terminalSays("does not have a grad_fn");
  await editor.commandEnds();
}

journey(
  "a traceback selected in the terminal leads from the menu to the report, and its fix to the file",
  { files: FAILING, settings: QUIET },
  async (editor, disk) => {
    await editor.open("train.py");
    await failed(editor);
    await editor.clipboard("MINE");
    await editor.command("Terminal: Select All"); // with the warning above the traceback
    await editor.menu(await editor.inTerminal(), "Diagnose Selected Traceback");
    const report = await editor.report();
    await editor.shot("report");
    match(await report.locator(".source").innerText(), /selection in terminal bash/);
    equal(await editor.clipboard(), "MINE");

    await report.getByRole("button", { name: "Apply fix" }).click();
    await report.getByText("Applied. The file is not saved yet").waitFor();
    await editor.line("use_reentrant=False").first().waitFor();
    await editor.shot("applied");
    await report.getByRole("button", { name: "Save file" }).click();
    await report.getByText("Applied and saved.").waitFor();
    equal(disk.read("train.py"), REPAIRED);
    await editor.shot("saved");
    await editor.run(`${RUN} && echo it runs now`);
    await editor.terminalSays("it runs now");
  },
);

journey(
  "with nothing selected the last failed command is taken, and a lone editor is asked about",
  { files: { ...FAILING, "run.log": "step 1\nRuntimeError: CUDA error: out of memory\n" }, settings: QUIET },
  async (editor) => {
    await editor.open("run.log");
    await editor.command(SELECT);
    await editor.asked("Nothing is selected");
    await editor.pick("The text on the clipboard");
    await editor.notificationSays("no text on the clipboard");
    await editor.command(SELECT);
    await editor.pick("All of run.log");
    match(await (await editor.report()).innerText(), /out of memory/);
    await failed(editor);
    await editor.command(SELECT);
    match(await (await editor.report("requires_grad")).locator(".source").innerText(), new RegExp(RUN));
  },
);

journey(
  "a traceback selected in an editor is diagnosed from its menu and by the keys",
  {
    files: {
      "notes.md":
        'It died:\n\nTraceback (most recent call last):\n  File "a.py", line 3, in <module>\n    x()\nZeroDivisionError: division by zero\n',
      "train.py": "",
    },
    settings: QUIET,
  },
  async (editor) => {
    await editor.open("notes.md");
    const { x, y } = await editor.placeOf("It died");
    await editor.goTo("It died");
    await editor.press("Control+A");
    await editor.menu({ x: x + 5, y }, "Diagnose Selected Traceback");
    match(await (await editor.report()).locator("h1").innerText(), /ZeroDivisionError/);
    await editor.shot("report");
    await editor.closeTab("Diagnosis");
    await editor.goTo("It died");
    await editor.press("Control+A");
    await editor.press("Shift+Alt+D");
    match(await (await editor.report()).locator(".source").innerText(), /selection in notes.md/);
  },
);

journey(
  "without shell integration all of a terminal or what is selected in it is diagnosed; the clipboard stays the user's",
  { files: FAILING, settings: NO_SHELL_INTEGRATION },
  async (editor) => {
    await failed(editor);
    await editor.clipboard("MINE");
    await editor.command(SELECT);
    await editor.asked("Nothing is selected");
    await editor.shot("question");
    equal((await editor.notifications()).length, 0);
    await editor.pick("All text in terminal");
    match(await (await editor.report("Diagnosis of text of terminal")).innerText(), /requires_grad/);
    equal(await editor.clipboard(), "MINE");

    await editor.selectInTerminal("Traceback", "RuntimeError: element");
    await editor.command(SELECT);
    match(await (await editor.report("Diagnosis of selection in terminal")).innerText(), /requires_grad/);
    equal(await editor.clipboard(), "MINE");
    await editor.shot("report");

    await editor.closeTab("Diagnosis");
    await editor.selectInTerminal("Traceback", "RuntimeError: element");
    for (let presses = 0; presses < 6; presses++) await editor.press("Shift+Alt+D");
    await editor.report("Diagnosis of selection in terminal");
    await editor.page.waitForTimeout(2000); // the last is done, too
    equal(await editor.clipboard(), "MINE");
  },
);

journey(
  "the keys diagnose the last failed command, a link on its traceback does too, and a fix that is gone says so",
  { files: FAILING, settings: QUIET },
  async (editor, disk) => {
    await failed(editor);
    await editor.press("Shift+Alt+D");
    match(await (await editor.report()).locator(".source").innerText(), /python3 train.py/);
    await editor.closeTab("Diagnosis");
    await editor.clickTerminalLink("Traceback (most recent call last)");
    const report = await editor.report();
    await editor.shot("from-the-link");
    disk.write("train.py", REPAIRED);
    await report.getByRole("button", { name: "Apply fix" }).click();
    await report.getByText("This is no longer there").waitFor();
    equal(disk.read("train.py"), REPAIRED);
  },
);
