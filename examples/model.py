"""A small decoder-only transformer over bytes: rotary positions, SwiGLU, tied embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Config:
    """The defaults make a model of GPT-2's smallest size; `train.py` asks for one that a laptop can train."""

    vocabulary: int = 256  # bytes
    context: int = 1024
    width: int = 768
    heads: int = 12
    layers: int = 12
    checkpoint: bool = True  # keep only each block's input, compute the rest again in backward
    loss_slices: int = 8


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale


def rotate(x: Tensor) -> Tensor:
    """Rotary position embedding. x: (batch, heads, time, width of a head)."""
    half = x.shape[-1] // 2
    frequency = 10_000 ** -(torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = torch.arange(x.shape[-2], device=x.device)[:, None] * frequency
    a, b = x.chunk(2, -1)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, time, width))


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 8 * width // 3 * 2, bias=False)
        self.down = nn.Linear(8 * width // 3, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * value)


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.width)
        self.attention = Attention(config.width, config.heads)
        self.feed_forward_norm = RMSNorm(config.width)
        self.feed_forward = FeedForward(config.width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Decoder(nn.Module):
    def __init__(self, config: Config = Config()) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        """tokens, targets: (batch, time) of int64. Returns the mean loss with targets, the logits without."""
        x = self.embed(tokens)
        for block in self.blocks:
            if self.config.checkpoint and self.training:
                x = checkpoint(block, x)
            else:
                x = block(x)
        x = self.norm(x)
        return self.head(x) if targets is None else self.loss(x, targets)

    def loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy, a slice of the sequence at a time: the logits of the whole batch never exist at once."""
        slices = self.config.loss_slices
        total = x.new_zeros(())
        for hidden, target in zip(x.chunk(slices, 1), targets.chunk(slices, 1)):
            total = total + checkpoint(
                lambda h: F.cross_entropy(self.head(h).flatten(0, 1), target.flatten(), reduction="sum"),
                hidden,
                use_reentrant=False,
            )
        return total / targets.numel()

    @torch.no_grad()
    def write(self, prompt: bytes, length: int = 80) -> bytes:
        """Continue a prompt, one byte at a time."""
        was_training = self.training
        self.eval()
        tokens = torch.tensor([list(prompt)], device=self.embed.weight.device)
        for _ in range(length):
            logits = self(tokens[:, -self.config.context :])[:, -1]
            tokens = torch.cat([tokens, torch.multinomial(logits.softmax(-1), 1)], 1)
        self.train(was_training)
        return bytes(tokens[0].tolist())
