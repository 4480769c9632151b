"""Describe pictures: a vision tower, a resampler that boils its patches down to a few, a text decoder that looks at them.

    python captioner.py                       # train on drawn squares, keeping every activation
    python captioner.py --checkpoint          # recompute in backward instead
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WORDS = ["<pad>", "<start>", "<end>", "a", "small", "large", "square", "left", "right", "of", "the", "middle"]


class Layer(nn.Module):
    """Self-attention, a look at a memory if the layer has eyes, a feed-forward network."""

    def __init__(self, width: int, heads: int = 4, looks: bool = False, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        if looks:
            self.look_norm = nn.LayerNorm(width)
            self.look = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, memory: Tensor | None = None, padding: Tensor | None = None) -> Tensor:
        """x: (batch, time, width); memory: (batch, any, width); padding: (batch, time), True where x is padding."""
        h = self.norm1(x)
        future = None
        if self.causal:
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        x = x + self.attend(h, h, h, key_padding_mask=padding, attn_mask=future, need_weights=False)[0]
        if memory is not None:
            x = x + self.look(self.look_norm(x), memory, memory, need_weights=False)[0]
        return x + self.feed_forward(self.norm2(x))


class VisionTower(nn.Module):
    def __init__(self, width: int, layers: int, patch: int = 8, use_checkpoint: bool = False) -> None:
        super().__init__()
        self.use_checkpoint = use_checkpoint
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.layers = nn.ModuleList([Layer(width) for _ in range(layers)])

    def forward(self, pictures: Tensor) -> Tensor:
        """pictures: (batch, 3, height, width). Returns (batch, patches, width)."""
        x = self.patches(pictures).flatten(2).transpose(1, 2)
        for i, layer in enumerate(self.layers):
            if self.use_checkpoint and self.training and i % 2 == 0:
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
        return x


class Captioner(nn.Module):
    def __init__(
        self,
        width: int = 512,
        tower_layers: int = 12,
        resampler_layers: int = 6,
        decoder_layers: int = 12,
        queries: int = 32,
        longest: int = 128,
        use_checkpoint: bool = True,
    ) -> None:
        super().__init__()
        self.use_checkpoint = use_checkpoint
        self.tower = VisionTower(width, tower_layers, use_checkpoint=use_checkpoint)
        self.queries = nn.Parameter(torch.randn(queries, width) * 0.02)
        self.resampler = nn.ModuleList([Layer(width, looks=True) for _ in range(resampler_layers)])
        self.embed = nn.Embedding(len(WORDS), width)
        self.position = nn.Parameter(torch.randn(longest, width) * 0.02)
        self.decoder = nn.ModuleList([Layer(width, looks=True, causal=True) for _ in range(decoder_layers)])
        self.head = nn.Linear(width, len(WORDS))

    def forward(self, pictures: Tensor, tokens: Tensor) -> Tensor:
        """pictures: (batch, 3, height, width); tokens: (batch, time). Returns logits (batch, time, words)."""
        patches = self.tower(pictures)
        seen = self.queries.expand(len(pictures), -1, -1)
        for layer in self.resampler:
            seen = layer(seen, patches)
        padding = tokens == 0
        x = self.embed(tokens) + self.position[: tokens.shape[1]]
        for layer in self.decoder:
            if self.use_checkpoint and self.training:
                x = checkpoint(layer, x, seen, padding=padding)
            else:
                x = layer(x, seen, padding=padding)
        return self.head(x)


def draw(batch: int, size: int = 32) -> tuple[Tensor, Tensor]:
    """Pictures of one square each, and what they show."""
    pictures = torch.zeros(batch, 3, size, size)
    captions = torch.zeros(batch, 9, dtype=torch.long)
    for picture, caption in zip(pictures, captions):
        side = 6 if torch.rand(()) < 0.5 else 12
        x, y = torch.randint(size - side, (2,)).tolist()
        picture[:, y : y + side, x : x + side] = torch.rand(3)[:, None, None]
        where = "left" if x + side / 2 < size / 2 else "right"
        text = ["<start>", "a", "small" if side == 6 else "large", "square"]
        text += [where, "of", "the", "middle"] if torch.rand(()) < 0.5 else [where]
        words = [WORDS.index(word) for word in [*text, "<end>"]]
        caption[: len(words)] = torch.tensor(words)
    return pictures, captions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--checkpoint", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Captioner(
        width=64, tower_layers=2, resampler_layers=1, decoder_layers=2, queries=4, use_checkpoint=args.checkpoint
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        pictures, captions = draw(args.batch)
        logits = model(pictures, captions[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), captions[:, 1:].flatten(), ignore_index=0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step + 1 == args.steps:
            print(f"step {step:4d}  loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
