import { deepEqual, notEqual } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { ONE_FINDING } from "./harness/programs.mjs";

journey(
  "a server that is killed comes back with its findings, silently",
  { files: { "train.py": ONE_FINDING } },
  async (editor, _disk, profile) => {
    await editor.open("train.py");
    await editor.squigglesBecome(1);
    const pid = profile.serverPid();
    process.kill(pid, "SIGKILL");
    await editor.open("train.py");
    await editor.until("another server", async () => isGone(pid));
    await editor.squigglesBecome(1);
    notEqual(profile.serverPid(), pid);
    deepEqual(await editor.notifications(), []);
  },
);

journey(
  "a server that dies again and again is given up with one message",
  { files: { "train.py": ONE_FINDING } },
  async (editor, _disk, profile) => {
    await editor.open("train.py");
    for (let deaths = 0; deaths < 5; deaths++) {
      await editor.squigglesBecome(1);
      process.kill(profile.serverPid(), "SIGKILL");
      await editor.open("train.py");
      await editor.page.waitForTimeout(500);
    }
    await editor.notificationSays("is not started again");
    deepEqual((await editor.notifications()).length, 1);
    await editor.shot("given-up");
    await editor.command("Remat: Restart Server");
    await editor.squigglesBecome(1);
  },
);

function isGone(pid) {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}
