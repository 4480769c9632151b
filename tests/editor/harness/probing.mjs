/** Models to probe, and what a user sees and does while one is probed. */

import { inVenv } from "../../../scripts/setup/paths.mjs";

/** A Python with torch: the project's own once `npm test` has prepared it, or another one. */
export const PROBING = { "remat.interpreter": process.env.REMAT_TORCH_PYTHON ?? inVenv("python"), "remat.gpu": "T4" };

/** Checkpoints each of its blocks; 4 blocks whose activations outweigh all else. */
export const MODEL = `\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.up(self.norm(x)))
        return x + self.down(hidden)


# remat: probe(batch=8, seq=512)
class Tower(nn.Module):
    def __init__(self, vocabulary=1000, width=256, depth=4):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)
`;

/** The same without checkpointing. */
export const PLAIN = MODEL.replace("from torch.utils.checkpoint import checkpoint\n", "").replace(
  "checkpoint(block, x, use_reentrant=False)",
  "block(x)",
);

/** Its blocks are checkpointed with inputs that need no gradient, so that none is recomputed. */
export const WITHOUT_EFFECT = `\
from torch import nn
from torch.utils.checkpoint import checkpoint


class Tower(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.head(x)
`;

/** What it needs that has no default is asked for. */
export const INCOMPLETE = `\
from torch import nn


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 10)

    def forward(self, x):
        return self.linear(x)
`;

/** Shards its blocks in a way that is not estimated. */
export const FSDP1 = `\
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel


# remat: probe(batch=8)
class Tower(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        torch.distributed.init_process_group("nccl")
        self.body = FullyShardedDataParallel(nn.Sequential(nn.Linear(width, width), nn.ReLU()))

    def forward(self, x):
        return self.body(x)
`;

/** Never ends; says in a file which process it runs in. */
export const ENDLESS = `\
import os
import time
from pathlib import Path

from torch import nn


class Endless(nn.Module):
    def __init__(self):
        super().__init__()
        Path(__file__).with_name("pid").write_text(str(os.getpid()))
        while True:
            time.sleep(0.1)

    def forward(self, x):
        return x
`;

/** Clicks "Probe memory" above the line with `text`. */
export async function probeByLens(editor, text) {
  let place;
  // Lenses are drawn anew when the server is heard; one that is gone has no place.
  await editor.until(`a lens above ${text}`, async () => {
    const { y } = await editor.placeOf(text);
    const boxes = await editor.page
      .locator(".editor-instance .codelens-decoration a")
      .evaluateAll((all) =>
        all.filter((one) => one.textContent === "Probe memory").map((one) => one.getBoundingClientRect().toJSON()),
      );
    place = boxes.filter((box) => box.height > 0 && box.bottom <= y && y - box.bottom < 30)[0];
    return place !== undefined;
  });
  await editor.page.mouse.click(place.x + place.width / 2, place.y + place.height / 2);
}

/** The panel's page. */
export function probePage(editor) {
  return editor.page.frameLocator("iframe.webview").frameLocator("iframe#active-frame").locator("main#probe");
}

/** Waits until all ways to checkpoint are there and nothing runs any more. */
export async function probed(page) {
  await page.locator("#tiers").waitFor({ timeout: 90_000 });
  await page.locator("#results:not([aria-busy]):not(.stale)").waitFor({ timeout: 90_000 });
}

/** The bytes that a cell says: "1.50 MiB", or the lower of "1.20–1.50 GiB". */
export function bytesIn(text) {
  const [, number, unit] = /([\d.]+)(?:–[\d.]+)? ([KMGT]?i?B)/.exec(text) ?? [];
  const power = ["B", "KiB", "MiB", "GiB", "TiB"].indexOf(unit);
  if (power < 0) throw new Error(`expected bytes, got ${text}`);
  return Number(number) * 1024 ** power;
}

/** What the table of ways to checkpoint says in the column \`title\` of the row \`way\`. */
export async function figure(page, way, title) {
  const table = page.locator("table#variants");
  const titles = await table.locator("thead th").allInnerTexts();
  const row = table.locator("tbody tr").filter({ has: page.page().getByText(way, { exact: true }) });
  return row.locator("th, td").nth(titles.indexOf(title)).innerText();
}
