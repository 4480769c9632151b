"""Rows of torchtitan's Llama, written as that trainer shards and checkpoints it.

Its recipe at the commit the rows name: parameters in fp32, gathered in bf16, reduced in fp32; each block sharded, the
last not resharded after forward, then the whole model, resharded; "selective op" keeps attention and every second
matrix product; the loss is taken of fp32 logits; AdamW with foreach.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from remat.probe.built import Built, Inputs

SIZES = {
    "Llama 3.1 8B": {"width": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "inner": 14336, "vocabulary": 128256},
    "Llama 3.1 70B": {"width": 8192, "layers": 80, "heads": 64, "kv_heads": 8, "inner": 28672, "vocabulary": 128256},
}


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.wq = nn.Linear(width, width, bias=False)
        self.wk, self.wv = (nn.Linear(width, kv_heads * self.size, bias=False) for _ in range(2))
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query, key, value = self.wq(x), self.wk(x), self.wv(x)
        query = turned(query.view(batch, length, self.heads, self.size), turns)
        key = turned(key.view(batch, length, self.kv_heads, self.size), turns)
        value = value.view(batch, length, self.kv_heads, self.size)
        parts = (query, self.repeated(key), self.repeated(value))
        mixed = functional.scaled_dot_product_attention(*(part.transpose(1, 2) for part in parts), is_causal=True)
        return self.wo(mixed.transpose(1, 2).contiguous().view(batch, length, width))

    def repeated(self, x: torch.Tensor) -> torch.Tensor:
        """As many heads as the query has, copied."""
        batch, length, heads, size = x.shape
        times = self.heads // self.kv_heads
        return x.unsqueeze(3).expand(batch, length, heads, times, size).reshape(batch, length, self.heads, size)


def turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Rotary positions by complex numbers, in fp32."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, : x.size(1), None]).flatten(3).type_as(x)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, inner: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, kv_heads)
        self.w1, self.w3 = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(inner, width, bias=False)
        self.attention_norm, self.ffn_norm = Norm(width), Norm(width)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), turns)
        inside = self.ffn_norm(x)
        return x + self.w2(functional.silu(self.w1(inside)) * self.w3(inside))


class Llama(nn.Module):
    def __init__(  # noqa: PLR0913 -- the sizes of a model
        self, *, width: int, layers: int, heads: int, kv_heads: int, inner: int, vocabulary: int, length: int
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, heads, kv_heads, inner) for _ in range(layers))
        self.norm, self.output = Norm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("turns", torch.ones(length, width // heads // 2, dtype=torch.complex64), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.turns)
        return self.output(self.norm(x))


def built(settings: dict) -> Built:
    refuse(settings)
    sizes, length = SIZES[settings["model"]], settings["seq"]
    return Built(
        partial(make_model, {**sizes, "length": length}, settings["checkpointing"]),
        lambda *_: Inputs((torch.randint(0, sizes["vocabulary"], (settings["batch"], length)),)),
        lambda out, inputs: functional.cross_entropy(out.flatten(0, 1).float(), inputs.args[0].flatten(0, 1)),
        make_optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-4, foreach=True, fused=False),
        step_is_a_function=True,
        assumptions=(f"model {settings['model']}: torchtitan's, with its public sizes",),
    )


def refuse(settings: dict) -> None:
    from bench.published.rows import NotComparableError  # noqa: PLC0415 -- it imports this module

    if settings["model"] not in SIZES:
        raise NotComparableError(f"no sizes at hand for {settings['model']!r}")
    if not settings.get("sharding", "").startswith("FSDP2"):
        raise NotComparableError(f"sharding {settings.get('sharding')!r} is not fully_shard alone")
    if settings["checkpointing"] not in CHECKPOINTING:
        raise NotComparableError(f"checkpointing {settings['checkpointing']!r} is not understood")


def make_model(sizes: dict, checkpointing: str) -> nn.Module:
    model = Llama(**sizes)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    settings = CHECKPOINTING[checkpointing]
    for place, block in enumerate(model.layers):
        kept = block if settings is None else checkpoint_wrapper(block, preserve_rng_state=False, **settings)
        model.layers[place] = kept
        fully_shard(kept, mp_policy=policy, reshard_after_forward=place < len(model.layers) - 1)
    return fully_shard(model, mp_policy=policy, reshard_after_forward=True)


def selective() -> object:
    """Contexts that keep attention and every other product."""
    aten, seen = torch.ops.aten, Counter()
    kept = {aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_efficient_attention.default}

    def choose(context: object, func: object, *_args: object, **_kwargs: object) -> CheckpointPolicy:
        if func is aten.mm.default:
            seen[context.is_recompute] += 1
            keeps = seen[context.is_recompute] % 2 == 1
        else:
            keeps = func in kept
        return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(choose)


CHECKPOINTING: dict[str, dict[str, object] | None] = {
    "none": None,
    "full": {},
    "selective op": {"context_fn": selective},
}
