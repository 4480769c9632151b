import { deepEqual, equal, match } from "node:assert/strict";
import { FAILING, IN_TERMINAL, RUN } from "./harness/failing.mjs";
import { journey } from "./harness/journey.mjs";

journey(
  "a command that fails in the terminal leads by one message to the report beside the editor",
  { files: FAILING, settings: IN_TERMINAL },
  async (editor) => {
    await editor.openTerminal(); // no Python file is open: terminals are watched from the start
    await editor.run(RUN);
    await editor.terminalSays("does not have a grad_fn");
    await editor.notificationSays(`${RUN}: The loss has no graph`);
    await editor.shot("message");
    deepEqual((await editor.notifications()).length, 1);
    await editor.pressInNotification("Show diagnosis");
    const report = await editor.report();
    match(await report.locator("h1").innerText(), /reentrant checkpointing dropped it/);
    match(await report.locator("#fix").innerText(), /use_reentrant=False/);
    deepEqual(await report.locator("li.proves .mark").first().getAttribute("aria-label"), "proof");
    await editor.shot("report");
    await report.locator("#log").scrollIntoViewIfNeeded();
    await editor.shot("log");
    await report.locator("#began .link", { hasText: "train.py:22" }).click();
    await editor.cursorIsAt(22);
    await editor.shot("code");
  },
);

journey(
  "commands that fail as they should, and Ctrl+C, are nobody's news",
  { files: { ...FAILING, "count.py": COUNTING() }, settings: IN_TERMINAL },
  async (editor, _disk, profile) => {
    await editor.openTerminal();
    for (const command of ["false", "grep nothing train.py", "python3 -c 'raise SystemExit(2)'", "ls nowhere"]) {
      await editor.run(command);
    }
    await editor.run("python3 -c 'print({}[1])'");
    await editor.terminalSays("KeyError: 1");
    await editor.run("python3 count.py");
    await editor.terminalSays("step 3");
    await editor.press("Control+C");
    await editor.terminalSays("KeyboardInterrupt");
    await editor.page.waitForTimeout(4000); // longer than any of the messages took
    deepEqual(await editor.notifications(), []);
    // The one command that asked the server is the KeyError: the others did not even start it.
    match(profile.log(), /starts|\(none\)/);
  },
);

journey(
  "with the setting off a failed command is left alone, and can still be diagnosed",
  { files: FAILING, settings: { ...IN_TERMINAL, "remat.diagnoseFailedCommands": false } },
  async (editor, _disk, profile) => {
    await editor.openTerminal();
    await editor.run(RUN);
    await editor.terminalSays("does not have a grad_fn");
    await editor.commandEnds();
    await editor.page.waitForTimeout(4000);
    deepEqual(await editor.notifications(), []);
    equal(profile.log().includes("the server is process"), false);
    await editor.command("Remat: Diagnose Last Failed Command");
    match(await (await editor.report()).innerText(), /requires_grad/);
  },
);

journey(
  "a command that fails again and again is one message at a time",
  { files: FAILING, settings: IN_TERMINAL },
  async (editor) => {
    await editor.openTerminal();
    for (let runs = 1; runs <= 4; runs++) {
      await editor.run(`${RUN}; test ${runs} = 5`);
      await editor.until(
        `${runs} runs`,
        async () => (await editor.terminalText()).split(`test ${runs} = 5`).length > 1,
      );
    }
    await editor.notificationSays("The loss has no graph");
    await editor.page.waitForTimeout(6000);
    await editor.shot("messages");
    equal((await editor.notifications()).length <= 2, true);
  },
);

function COUNTING() {
  return `
import time
for step in range(1000):
    print("rank 0 torch step", step, flush=True)
    time.sleep(0.1)
`;
}
