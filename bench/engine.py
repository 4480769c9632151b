"""What an edit costs in the engine: CPU milliseconds from a keystroke to its findings, and for the first analysis.

    python bench/engine.py

Files are made, not collected: a decoder model repeated to about 700, 4,800 and 26,600 lines, with a checkpoint call in
one layer class of five and a finding in one of forty. 200 characters are typed inside a call, one analysis for each.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "server"))

from remat.lint.check import analyse, check
from remat.lsp.analyst import collect_garbage_rarely

BLOCK = '''
class Layer{n}(nn.Module):
    """A layer with attention and an MLP.

    Args:
        width (int):
            Size of the hidden states, and of what the layer returns.
        heads (int):
            Number of attention heads; must divide the width.
        dropout (float, *optional*, defaults to 0.1):
            The probability that an element of the attention weights or of the output is zeroed in training.

    Returns:
        The hidden states of shape (batch, length, width), in the dtype and on the device of the input. With a mask,
        positions where it is 0 are not attended to.

    The layer is the usual one: normalisation before attention, a residual connection around each half, and an MLP
    that is four times as wide as the hidden states. Nothing in it depends on the position, which is added before.
    """

    def __init__(
        self,
        width,
        heads,
        dropout=0.1,
    ):
        super().__init__()
        self.width = width
        self.heads = heads
        self.probability = dropout

        # Pre-norm, as in most decoders since GPT-2.
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(heads)])
        self.dropout = nn.Dropout(dropout)

    def attend(self, x, mask=None):
        """Attend within each sequence.

        x: (batch, length, width)
        mask: (batch, 1, length, length), 0 where a position must not be seen
        """
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = self.dropout(F.softmax(scores, dim=-1))
        return (weights @ v).transpose(1, 2).reshape(batch, length, width)

    def forward(self, x, mask=None):
        x = x + self.attend(self.norm(x), mask)
{body}
        return self.dropout(x)


def build{n}(config):
    """Build the layers of one stage with their optimizer and schedule.

    The learning rate falls along a cosine from `lr` to zero over `steps` steps. Weight decay applies to all parameters.
    """
    layers = [Layer{n}(config["width"], config["heads"]) for _ in range(config["depth"])]
    optimizer = torch.optim.AdamW([p for layer in layers for p in layer.parameters()], lr=config.get("lr", 3e-4))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=config["steps"])
    return layers, optimizer, schedule

'''
WRAPPED = "        for block in self.blocks:\n            x = checkpoint(block, x, use_reentrant=False)"
WRONG = "        for block in self.blocks:\n            x = checkpoint(block, x)"
PLAIN = "        for block in self.blocks:\n            x = x + block(x)"
HEAD = """import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
"""
SIZES = ((700, 5, 25), (4_800, 20, 160), (26_600, 30, 450))


def source(lines: int) -> str:
    block = BLOCK.count("\n") + 1
    bodies = (WRONG if n % 40 == 3 else WRAPPED if n % 5 == 0 else PLAIN for n in range(lines // block))
    return HEAD + "".join(BLOCK.format(n=n, body=body) for n, body in enumerate(bodies))


def typed(text: str, characters: int) -> list[str]:
    """The text after each of so many characters typed before the closing parenthesis of a checkpoint call."""
    call = "checkpoint(block, x)"
    at = text.index(call) + len(call) - 1
    words = (", use_reentrant=False  # and why" * characters)[:characters]
    return [text[:at] + words[: n + 1] + text[at:] for n in range(characters)]


def milliseconds(run, clock=time.process_time) -> float:
    start = clock()
    run()
    return (clock() - start) * 1e3


def stall(text: str) -> float:
    """Longest time, in ms, that another thread waits while `text` is analysed for the first time in a thread."""
    worker = threading.Thread(target=lambda: check(text))
    worker.start()
    longest = 0.0
    while worker.is_alive():
        before = time.perf_counter()
        time.sleep(0.001)
        longest = max(longest, (time.perf_counter() - before) * 1e3 - 1)
    return longest


def measure(lines: int) -> dict[str, float]:
    text = source(lines)
    check(text)
    first = min(milliseconds(lambda: check(text)) for _ in range(3))
    analysis = analyse(text)
    edits = []
    for version in typed(text, 200):
        start = time.process_time()
        analysis = analyse(version, before=analysis)
        edits.append((time.process_time() - start) * 1e3)
    edits.sort()
    return {
        "lines": text.count("\n"),
        "first": first,
        "edit p50": statistics.median(edits),
        "edit p95": edits[int(len(edits) * 0.95)],
        "edit max": edits[-1],
        "stall": stall(text),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    gc.collect()
    collect_garbage_rarely()  # as the language server does
    rows = [measure(lines) for lines, _, _ in SIZES]
    plain = "import os\n\ndef f(x):\n    return x + 1\n" * 2000
    without = min(milliseconds(lambda: check(plain)) for _ in range(5))
    if args.json:
        print(json.dumps({"rows": rows, "no trigger word": without}))
        return
    print(
        f"{'lines':>7} {'first':>8} {'edit p50':>9} {'edit p95':>9} {'edit max':>9} {'stall':>7}   CPU ms (stall: wall)"
    )
    for row, (_, p95, first) in zip(rows, SIZES, strict=True):
        values = " ".join(f"{row[k]:9.1f}" for k in ("first", "edit p50", "edit p95", "edit max", "stall"))
        print(f"{row['lines']:7.0f} {values}   wanted: first <= {first}, p95 <= {p95}")
    print(f"a file of {plain.count(chr(10)):,} lines without trigger words: {without:.3f} ms")


if __name__ == "__main__":
    main()
