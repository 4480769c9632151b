import { deepEqual, equal, match, ok } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { bytesIn, FSDP1, MODEL, PROBING, probeByLens, probed, probePage } from "./harness/probing.mjs";

journey(
  "what one of eight ranks needs is asked for with the keyboard, and every figure says that it is one rank's",
  { files: { "tower.py": MODEL }, settings: { ...PROBING, "workbench.colorTheme": "Default Dark Modern" } },
  async (editor) => {
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    const page = probePage(editor);
    await probed(page);
    const alone = bytesIn(await allocated(page));
    const held = bytesIn(await parameters(page));

    await page.locator('[name="loraRank"]').focus();
    await editor.press("Tab");
    await editor.press("Tab");
    await editor.type("F");
    await page.locator("#ranks-missing", { hasText: "Over how many ranks? Fill in the world size." }).waitFor();
    equal(await page.locator("#results.stale").count(), 0, "nothing is asked for yet");
    await editor.shot("ranks-missing");
    await editor.press("Shift+Tab");
    await editor.type("8");
    await page.locator("#ran pre", { hasText: "--world-size 8 --sharding fsdp2" }).waitFor({ timeout: 90_000 });
    await probed(page);
    equal(await page.locator("#ranks-missing").innerText(), "");
    ok(bytesIn(await parameters(page)) < held / 7, "a rank holds its part of the parameters");
    ok(bytesIn(await allocated(page)) < alone, "and needs less");
    match(await page.locator("#headline").innerText(), /Each of 8 ranks: fits on T4[\s\S]*Each of 8 ranks needs/);
    match(await page.locator("#headline").innerText(), /less per rank than as first probed, 136 MiB\./);
    match(await page.locator("#tiers").innerText(), /at the peak per rank[\s\S]*from the driver per rank/);
    deepEqual((await page.locator("#variants thead th").allInnerTexts()).slice(0, 2), [
      "Checkpointing",
      "Needs per rank",
    ]);
    match(
      await page.locator("#assumptions").innerText(),
      /rank 0 of 8.*batch is that of one rank[\s\S]*fully_shard 4 times/,
    );
    await top(page);
    await editor.shot("eight-ranks");
    await page.locator("#compare").scrollIntoViewIfNeeded();
    await editor.shot("eight-ranks-compared");

    await editor.page.setViewportSize({ width: 820, height: 1000 });
    await editor.page.waitForTimeout(1000);
    await top(page);
    await editor.shot("narrow");
    deepEqual(await cutOff(page), []);
    await page.getByRole("button", { name: "Reset" }).click();
    await page.locator("#headline h1", { hasText: /^.? ?Fits on T4$/ }).waitFor({ timeout: 90_000 });
    equal(bytesIn(await allocated(page)), alone);
  },
);

journey(
  "code that shards in a way that is not estimated is told so in words, and which knob asks for its ranks",
  { files: { "tower.py": FSDP1 }, settings: PROBING },
  async (editor) => {
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    const page = probePage(editor);
    const failure = page.locator(".failure");
    await failure.waitFor({ timeout: 90_000 });
    match(
      await failure.innerText(),
      /how many processes train this model together[\s\S]*In this panel: World size, above\./,
    );
    await editor.shot("asked");
    await page.locator('[name="worldSize"]').fill("4");
    await page.locator(".failure", { hasText: "FullyShardedDataParallel (FSDP1), which is not supported" }).waitFor({
      timeout: 90_000,
    });
    equal(await page.locator(".failure .link").innerText(), "tower.py:11");
    await editor.shot("refused");
  },
);

journey(
  "two ranks are really run on this machine, beside the estimate of one",
  { files: { "tower.py": MODEL.replace("width=256, depth=4", "width=64, depth=2") }, settings: PROBING },
  async (editor) => {
    await editor.open("tower.py");
    await probeByLens(editor, "class Tower");
    const page = probePage(editor);
    await probed(page);
    await page.locator('[name="worldSize"]').fill("2");
    await page.locator('[name="sharding"]').selectOption("ddp");
    await page.locator("#headline h1", { hasText: "Each of 2 ranks" }).waitFor({ timeout: 90_000 });
    await probed(page);
    match(await page.locator("#measure").innerText(), /Starts 2 processes through torchrun/);
    await page.getByRole("button", { name: "Measure", exact: true }).click();
    await page.locator("table#measured").waitFor({ timeout: 120_000 });
    const said = await page.locator("#measured").innerText();
    match(said, /On 2 ranks, each on the CPU of this machine[\s\S]*Allocated per rank[\s\S]*Least of any rank/);
    const [estimated, measured] = await page.locator("#measured tbody tr").first().locator("td").allInnerTexts();
    ok(Math.abs(bytesIn(estimated) / bytesIn(measured) - 1) < 0.02, `${estimated} ${measured}`);
    await page.locator("#measure").scrollIntoViewIfNeeded();
    await editor.shot("measured");
  },
);

function allocated(page) {
  return page.locator("#tiers .figure").first().innerText();
}

/** What the legend of the timeline says of parameters at the peak. */
function parameters(page) {
  return page.locator("#timeline .legend li", { hasText: "Parameters" }).locator(".value").innerText();
}

async function top(page) {
  await page.locator("#controls").evaluate(() => window.scrollTo(0, 0));
}

/** Fields and their labels that are wider than the place they have. */
function cutOff(page) {
  return page
    .locator("#controls label, #controls label span, #tiers > div, #headline")
    .evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText));
}
