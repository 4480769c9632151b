import { match } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { PROBING, probeByLens, probed, probePage } from "./harness/probing.mjs";

const FINETUNE = `\
import torch
from transformers import AutoModelForCausalLM, LlamaConfig


def main():
    config = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=6, num_attention_heads=4)
    config.use_cache = False
    model = AutoModelForCausalLM.from_config(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in loader():
        model(**batch).loss.backward()
        optimizer.step()
`;

journey(
  "a model of transformers is switched on the line after it is made, and probing again sees it",
  { files: { "finetune.py": FINETUNE }, settings: PROBING },
  async (editor, disk, profile) => {
    await editor.open("finetune.py");
    await probeByLens(editor, "model = AutoModelForCausalLM");
    const page = probePage(editor);
    await probed(page);
    await page.locator('[name="batch"]').fill("4");
    await page.locator("#sizes", { hasText: /^Batch 4, sequence \d+/ }).waitFor({ timeout: 90_000 });
    await probed(page);
    await page.locator("#apply").scrollIntoViewIfNeeded();
    await page.getByRole("button", { name: "Apply to code: Every block" }).click();
    await page.locator(".planned", { hasText: "transformers' own switch" }).waitFor();
    await editor.cursorIsAt(9);
    await editor.shot("applied");
    await page.locator(".planned button", { hasText: "Compare memory before and after" }).click();
    await page.locator("#compared").waitFor({ timeout: 90_000 });
    await probed(page);
    match(
      disk.read("finetune.py"),
      /from_config\(config\)\n {4}model\.activation_checkpointing_enable\(activation_checkpointing_kwargs=\{"use_reentrant": False\}\)\n/,
    );
    match(await page.locator("#compared-verdict").innerText(), /lower than before/);
    match(await page.locator("#compared tbody").innerText(), /Recomputed\s+nothing\s+6 × LlamaDecoderLayer/);
    for (const theme of ["Default High Contrast Light", "Default High Contrast", "Default Dark Modern"]) {
      profile.set({ "workbench.colorTheme": theme });
      await editor.page.waitForTimeout(1500);
      await page.locator("#compared").scrollIntoViewIfNeeded();
      await editor.shot(theme);
    }
  },
);
