import { equal, match, ok } from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { journey } from "./harness/journey.mjs";
import { PROBING, probePage } from "./harness/probing.mjs";

/** Three steps of a run, as torch.cuda.memory._dump_snapshot writes them, with the stacks of a loop. */
const RECORD = `
import pickle, sys
to, script = sys.argv[1:]
frames = {
    "forward": [{"filename": script, "line": 2, "name": "forward"}, {"filename": "/venv/lib/torch/nn/modules/module.py", "line": 9, "name": "_call_impl"}],
    "backward": [{"filename": "/venv/lib/torch/autograd/graph.py", "line": 8, "name": "_engine_run_backward"}],
    "optimizer": [{"filename": "/venv/lib/torch/optim/adamw.py", "line": 7, "name": "step"}],
}
trace, at, address = [], 0, 0
def event(action, address, size, stack):
    global at
    at += 1
    trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": at, "frames": frames[stack]})
for step in range(3):
    made = []
    for layer in range(40):
        address += 1
        made.append(address)
        event("alloc", address, 8 << 20, "forward")
    for one in reversed(made):
        event("free_completed", one, 8 << 20, "backward")
        event("alloc", -one, 2 << 20, "backward")
    event("alloc", 10**9 + step, 64 << 20, "optimizer")
    for one in made:
        event("free_completed", -one, 2 << 20, "optimizer")
with open(to, "wb") as file:
    pickle.dump({"segments": [], "device_traces": [trace]}, file, protocol=4)
`;
const EVIL = `
import os, pickle, sys
class Evil:
    def __reduce__(self):
        return os.mkdir, (sys.argv[2],)
with open(sys.argv[1], "wb") as file:
    pickle.dump({"device_traces": Evil()}, file)
`;

journey(
  "a snapshot of a real run opens on the same chart, and a pickle that would run something is refused",
  { files: { "train.py": "def forward(x):\n    return x * 2\n", "notes.txt": "" }, settings: PROBING },
  async (editor, disk, profile) => {
    const python = (code, ...args) => execFileSync(PROBING["remat.interpreter"], ["-c", code, ...args]);
    python(RECORD, disk.at("run.pickle"), disk.at("train.py"));
    python(EVIL, disk.at("evil.pickle"), disk.at("harm"));
    await editor.extensionRuns();
    await editor.open("train.py");
    await editor.menu(await editor.inExplorer("run.pickle"), "Open Memory Snapshot…");
    const page = probePage(editor);
    await page.locator("#headline h1", { hasText: "Peak of 448 MiB" }).waitFor();
    match(await page.locator("#headline").innerText(), /Recorded by a real run/i);
    ok((await page.locator("#timeline svg.chart .area path").count()) >= 3, "areas by where memory was made");
    match(await page.locator("#timeline .legend").innerText(), /Made in forward[\s\S]*MiB/);
    match(await page.locator("#reading").innerText(), /^Peak: project\/train\.py:2 · 448 MiB$/);
    equal(await page.locator("#controls").isVisible(), false);
    await editor.shot("recorded");
    await page.locator("#headline .link").click();
    await editor.cursorIsAt(2);
    for (const theme of ["Default High Contrast", "Default Dark Modern"]) {
      profile.set({ "workbench.colorTheme": theme });
      await editor.page.waitForTimeout(1500);
      await editor.shot(theme);
    }
    await editor.menu(await editor.inExplorer("evil.pickle"), "Open Memory Snapshot…");
    await editor.notificationSays("evil.pickle is no memory snapshot");
    equal(existsSync(disk.at("harm")), false);
    match(await page.locator("#headline h1").innerText(), /^Peak of 448 MiB/);
  },
);
