"""The models and settings of gpu_truth.py: a few architectures, each in the ways that people train them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from remat.probe.built import Built, Inputs
from remat.probe.messages import Variant

if TYPE_CHECKING:
    from collections.abc import Callable

NONE = Variant("none", checkpointing="none")
ALL = Variant("all", checkpointing="all")
REENTRANT = Variant("reentrant", checkpointing="all", reentrant=True)


@dataclass(frozen=True)
class Size:
    """Of a model: for a GPU hundreds of megabytes, for the CPU a few."""

    width: int
    layers: int
    heads: int
    vocabulary: int
    batch: int
    seq: int
    image: int


GPU = Size(width=1024, layers=12, heads=16, vocabulary=32000, batch=8, seq=1024, image=224)
SMALL = Size(width=96, layers=3, heads=4, vocabulary=256, batch=4, seq=64, image=32)


def hugging_face(size: Size, kind: str, **settings: object) -> Built:
    """A causal language model of transformers."""
    import transformers  # noqa: PLC0415 -- only where such a row runs

    def make() -> nn.Module:
        given = {"vocab_size": size.vocabulary, "max_position_embeddings": 4 * size.seq, "use_cache": False, **settings}
        attention = {"attn_implementation": given.pop("attention", "sdpa")}
        config = transformers.AutoConfig.for_model(kind, **given)
        return transformers.AutoModelForCausalLM.from_config(config, **attention)

    return Built(make, tokens(size), lambda out, _: out.loss)


def tokens(size: Size) -> Callable[[nn.Module, int | None, int | None], Inputs]:
    def batch(_: nn.Module, count: int | None, length: int | None) -> Inputs:
        ids = torch.randint(3, size.vocabulary, (count or size.batch, length or size.seq))
        return Inputs(kwargs={"input_ids": ids, "labels": ids})

    return batch


def llama(size: Size, attention: str = "sdpa") -> Built:
    return hugging_face(
        size, "llama", hidden_size=size.width, intermediate_size=8 * size.width // 3 // 32 * 32,
        num_hidden_layers=size.layers, num_attention_heads=size.heads, num_key_value_heads=size.heads // 2,
        attention=attention,
    )  # fmt: skip


def qwen3(size: Size) -> Built:
    return hugging_face(
        size, "qwen3", hidden_size=size.width, intermediate_size=3 * size.width, num_hidden_layers=size.layers,
        num_attention_heads=size.heads, num_key_value_heads=size.heads // 2, head_dim=size.width // size.heads,
    )  # fmt: skip


def gpt2(size: Size) -> Built:
    return hugging_face(
        size, "gpt2", n_embd=size.width, n_layer=size.layers, n_head=size.heads, n_positions=4 * size.seq
    )  # fmt: skip


def bert(size: Size) -> Built:
    import transformers  # noqa: PLC0415

    def make() -> nn.Module:
        sizes = {"hidden_size": size.width, "num_hidden_layers": size.layers, "num_attention_heads": size.heads}
        config = transformers.BertConfig(
            vocab_size=size.vocabulary, intermediate_size=4 * size.width, max_position_embeddings=size.seq, **sizes
        )
        return transformers.BertForMaskedLM(config)

    return Built(make, tokens(size), lambda out, _: out.loss)


def t5(size: Size) -> Built:
    import transformers  # noqa: PLC0415

    def make() -> nn.Module:
        sizes = {"d_model": size.width, "d_ff": 4 * size.width, "num_heads": size.heads, "num_layers": size.layers // 2}
        config = transformers.T5Config(
            vocab_size=size.vocabulary,
            d_kv=size.width // size.heads,
            decoder_start_token_id=0,
            use_cache=False,
            **sizes,
        )
        return transformers.T5ForConditionalGeneration(config)

    return Built(make, tokens(replace(size, seq=size.seq // 2)), lambda out, _: out.loss)


def vit(size: Size) -> Built:
    import transformers  # noqa: PLC0415

    def make() -> nn.Module:
        sizes = {"hidden_size": size.width, "num_hidden_layers": size.layers, "num_attention_heads": size.heads}
        config = transformers.ViTConfig(
            image_size=size.image, patch_size=size.image // 14 or 1, intermediate_size=4 * size.width, **sizes
        )
        return transformers.ViTForImageClassification(config)

    def batch(_: nn.Module, count: int | None, length: int | None) -> Inputs:  # noqa: ARG001
        return Inputs(kwargs={"pixel_values": torch.randn(count or 4 * size.batch, 3, size.image, size.image)})

    return Built(make, batch, lambda out, _: out.logits.square().mean())


class Block(nn.Module):
    """As nanoGPT writes it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm_1(x)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class Nano(nn.Module):
    def __init__(self, size: Size, rank: int | None = None) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(size.vocabulary, size.width), nn.Embedding(4 * size.seq, size.width)
        self.blocks = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.layers))
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, size.vocabulary, bias=False)
        if rank is not None:
            self.requires_grad_(False)  # noqa: FBT003
            for block in self.blocks:
                block.qkv, block.out = Adapted(block.qkv, rank), Adapted(block.out, rank)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.token(input_ids) + self.place(torch.arange(input_ids.shape[1], device=input_ids.device))
        if not self.token.weight.requires_grad:
            x.requires_grad_()  # as PEFT does: reentrant checkpoints need an input with a gradient
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


class Adapted(nn.Module):
    """A frozen layer with a trained one of low rank beside it."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.a, self.b = nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.b(self.a(functional.dropout(x, 0.1)))


def nano(size: Size, rank: int | None = None) -> Built:
    return Built(lambda: Nano(size, rank), tokens(size), lambda out, _: out)


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm_1, self.norm_2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.norm_1(self.first(x)))
        return functional.relu(x + self.norm_2(self.second(hidden)))


class ConvNet(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        channels = size.width // 4
        self.stem = nn.Conv2d(3, channels, 4, stride=4)
        self.blocks = nn.Sequential(*(Residual(channels) for _ in range(size.layers)))
        self.head = nn.Linear(channels, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def conv_net(size: Size) -> Built:
    def batch(_: nn.Module, count: int | None, length: int | None) -> Inputs:  # noqa: ARG001
        return Inputs((torch.randn(count or 4 * size.batch, 3, size.image, size.image),))

    return Built(lambda: ConvNet(size), batch, lambda out, _: out.square().mean())


def rows(size: Size) -> dict[str, tuple[Callable[[], Built], Variant]]:
    """By name: the builder, called once for each use, and the variant. The most telling ones come first."""
    bf16, autocast = {"dtype": "bf16"}, {"autocast": "bf16"}
    fsdp2 = {"world_size": 8, "sharding": "fsdp2", **autocast}  # one rank on one GPU, beside ranks that are pretended
    listed: list[tuple[str, Callable[[], Built], Variant]] = [
        ("llama bf16", lambda: llama(size), replace(NONE, **bf16)),
        ("llama bf16 all", lambda: llama(size), replace(ALL, **bf16)),
        ("llama bf16 all reentrant", lambda: llama(size), replace(REENTRANT, **bf16)),
        ("llama fsdp2 of 8", lambda: llama(size), replace(NONE, **fsdp2)),
        ("llama fsdp2 of 8 all", lambda: llama(size), replace(ALL, **fsdp2)),
        ("gpt2 fp32", lambda: gpt2(size), NONE),
        ("gpt2 fp32 all", lambda: gpt2(size), ALL),
        ("lora bf16", lambda: nano(size, 8), replace(NONE, **bf16)),
        ("lora bf16 all", lambda: nano(size, 8), replace(ALL, **bf16)),
        ("bert autocast", lambda: bert(size), replace(NONE, batch=size.batch // 2, **autocast)),
        ("bert fp32 all reentrant", lambda: bert(size), replace(REENTRANT, batch=size.batch // 2)),
        ("conv net fp32", lambda: conv_net(size), NONE),
        ("conv net autocast all", lambda: conv_net(size), replace(ALL, **autocast)),
        ("llama autocast", lambda: llama(size), replace(NONE, **autocast)),
        ("llama autocast all", lambda: llama(size), replace(ALL, **autocast)),
        ("llama bf16 fused", lambda: llama(size), replace(NONE, optimizer="adamw-fused", **bf16)),
        ("llama bf16 all fused", lambda: llama(size), replace(ALL, optimizer="adamw-fused", **bf16)),
        ("llama bf16 every second", lambda: llama(size), replace(ALL, checkpointing="every-2", **bf16)),
        ("llama bf16 selective", lambda: llama(size), replace(ALL, checkpointing="selective", **bf16)),
        ("llama bf16 long all", lambda: llama(size), replace(ALL, batch=1, seq=4 * size.seq, **bf16)),
        ("llama bf16 eager", lambda: llama(size, "eager"), replace(NONE, batch=2, **bf16)),
        ("llama fp32 batch 1 loop", lambda: llama(size), replace(NONE, batch=1, optimizer="adamw-forloop")),
        ("qwen3 bf16 all", lambda: qwen3(size), replace(ALL, **bf16)),
        ("qwen3 bf16 accumulation", lambda: qwen3(size), replace(NONE, batch=2, grad_accum=2, **bf16)),
        ("nano autocast all momentum", lambda: nano(size), replace(ALL, optimizer="sgd-momentum", **autocast)),
        ("nano bf16 sgd", lambda: nano(size), replace(NONE, optimizer="sgd", **bf16)),
        ("vit autocast", lambda: vit(size), replace(NONE, **autocast)),
        ("vit fp32 all foreach", lambda: vit(size), replace(ALL, optimizer="adamw-foreach")),
        ("t5 bf16", lambda: t5(size), replace(NONE, **bf16)),
        ("t5 fp32 all", lambda: t5(size), ALL),
        ("gpt2 autocast fp16", lambda: gpt2(size), replace(NONE, autocast="fp16")),
        ("lora bf16 all reentrant", lambda: nano(size, 8), replace(REENTRANT, **bf16)),
    ]
    return {name: (make, replace(variant, name=name)) for name, make, variant in listed}
