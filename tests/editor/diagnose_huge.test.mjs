import { equal, match, ok } from "node:assert/strict";
import { FAILING, IN_TERMINAL, TRAIN } from "./harness/failing.mjs";
import { journey } from "./harness/journey.mjs";

const LINES = 120_000;
const SOON = 20_000; // this machine may be busy with other things; nobody waits that long otherwise

/** Some ten megabytes of steps, and then the failure. */
const CHATTY = `
import sys
for step in range(${LINES}):
    sys.stdout.write(f"rank 0 step {step} loss {3 / (step + 1):.6f} grad_norm 0.123456 lr 0.0003 tokens/s 12345.6\\n")
${TRAIN}`;

journey(
  "ten megabytes in a terminal neither freeze the editor nor hide the failure at their end",
  {
    files: { ...FAILING, "chatty.py": CHATTY },
    settings: { ...IN_TERMINAL, "terminal.integrated.scrollback": 2 * LINES },
  },
  async (editor) => {
    await editor.openTerminal();
    await editor.run("python3 chatty.py");
    await editor.notificationSays("The loss has no graph", 90_000); // drawing all of it takes VS Code most of the time
    await editor.pressInNotification("Show diagnosis");
    const report = await editor.report();
    match(
      await report.locator("#log").innerText(),
      /It was longer: of its middle \d,\d{3},\d{3} characters.*\d\d,\d{3} lines not shown/s,
    );
    await editor.shot("report");

    // All of it as a selection, through the clipboard.
    await editor.clipboard("MINE");
    await editor.command("Terminal: Select All");
    const begun = Date.now();
    await editor.menu(await editor.inTerminal(), "Diagnose Selected Traceback");
    await editor.page.keyboard.press("F1"); // the editor answers while the log is read
    await editor.page.locator(".quick-input-widget input").waitFor();
    const answered = Date.now() - begun;
    await editor.press("Escape");
    await editor.report("selection in terminal bash");
    const whole = await editor.report("The loss has no graph");
    console.log(`the editor answered after ${answered} ms, the report was there after ${Date.now() - begun} ms`);
    match(await whole.locator("#log").innerText(), /120,\d{3} lines in all/);
    ok(answered < SOON);
    equal(await editor.clipboard(), "MINE");
    await editor.shot("whole");
  },
);
