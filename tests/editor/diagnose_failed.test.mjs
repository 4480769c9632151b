import { deepEqual, equal, match, ok } from "node:assert/strict";
import { FAILING, IN_TERMINAL, RUN } from "./harness/failing.mjs";
import { journey } from "./harness/journey.mjs";
import { LINKS } from "./harness/logs.mjs";

const LONGER_THAN_ANY_MESSAGE_TOOK = 4_000;

journey(
  "a command that fails in the terminal leads by one message to the report beside the editor",
  { files: { ...FAILING, "links.log": LINKS }, settings: IN_TERMINAL },
  async (editor) => {
    await editor.openTerminal(); // no Python file is open: terminals are watched from the start
    await editor.run(RUN);
    await editor.terminalSays("does not have a grad_fn");
    await editor.notificationSays(`${RUN}: The loss has no graph`);
    await editor.shot("message");
    equal((await editor.notifications()).length, 1);
    await editor.pressInNotification("Show diagnosis");
    const report = await editor.report();
    match(await report.locator("h1").innerText(), /reentrant checkpointing dropped it/);
    match(await report.locator("#fix").innerText(), /use_reentrant=False/);
    equal(await report.locator("li.proves .mark").first().getAttribute("aria-label"), "proof");
    await editor.shot("report");
    await report.locator("#log").scrollIntoViewIfNeeded();
    await editor.shot("log");
    await report.locator("#began .link", { hasText: "train.py:22" }).click();
    await editor.cursorIsAt(22);
    await editor.shot("code");

    // Failing again and again is no storm: the first is told at once, of those soon after only the last.
    await editor.page.waitForTimeout(5000);
    for (let runs = 1; runs <= 4; runs++) {
      await editor.run(`${RUN}; test ${runs} = 5`);
      await editor.commandEnds();
    }
    await editor.notificationSays("= 5: The loss has no graph");
    await editor.page.waitForTimeout(6000);
    await editor.shot("messages");
    ok((await editor.notifications()).length <= 2);

    // What a log says is text in a message, too: VS Code would run the command of a link there.
    await editor.run("cat links.log; false");
    await editor.notificationSays("[Show details] (command:");
    await editor.shot("no-link");
    equal(await editor.page.locator(".notification-list-item-message a").count(), 0);
  },
);

journey(
  "commands that fail as they should, Ctrl+C, and with the setting off all of them, are nobody's news",
  { files: { ...FAILING, "count.py": counting() }, settings: IN_TERMINAL },
  async (editor, _disk, profile) => {
    await editor.openTerminal();
    for (const command of ["false", "grep nothing train.py", "python3 -c 'raise SystemExit(2)'", "ls nowhere"]) {
      await editor.run(command);
    }
    await editor.terminalSays("cannot access");
    await editor.commandEnds();
    equal(profile.log().includes("the server is process"), false); // not even the server was started for them
    await editor.run("python3 -c 'print({}[1])'");
    await editor.terminalSays("KeyError: 1");
    await editor.run("python3 count.py");
    await editor.terminalSays("step 3");
    await editor.press("Control+C");
    await editor.terminalSays("KeyboardInterrupt");
    await editor.page.waitForTimeout(LONGER_THAN_ANY_MESSAGE_TOOK);
    deepEqual(await editor.notifications(), []);

    profile.set({ "remat.diagnoseFailedCommands": false });
    await editor.page.waitForTimeout(1000);
    await editor.run(RUN);
    await editor.terminalSays("does not have a grad_fn");
    await editor.page.waitForTimeout(LONGER_THAN_ANY_MESSAGE_TOOK);
    deepEqual(await editor.notifications(), []);
    await editor.command("Remat: Diagnose Last Failed Command"); // asked for, it is there all the same
    match(await (await editor.report()).innerText(), /requires_grad/);
  },
);

function counting() {
  return `
import time
for step in range(1000):
    print("rank 0 torch step", step, flush=True)
    time.sleep(0.1)
`;
}
