"""Small models of many families, each a few megabytes and a fraction of a second a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import transformers
from torch import nn

from remat.probe.built import Built, Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

VOCABULARY = 256
TOKENS = {"vocab_size": VOCABULARY, "max_position_embeddings": 256}


def language_model(kind: str, **sizes: object) -> Built:
    """A causal language model of transformers on 4 sequences of 128 tokens."""

    def make() -> nn.Module:
        config = transformers.AutoConfig.for_model(kind, **{**TOKENS, **sizes})
        config.use_cache = False
        return transformers.AutoModelForCausalLM.from_config(config)

    return Built(make, labelled_tokens, lambda out, _: out.loss)


def labelled_tokens(model: nn.Module, batch: int | None, seq: int | None) -> Inputs:
    ids = torch.randint(3, VOCABULARY, (batch or 4, seq or 128))
    return Inputs(kwargs={"input_ids": ids, "labels": ids})


def gpt2() -> Built:
    return language_model("gpt2", n_embd=128, n_layer=4, n_head=4, n_positions=256)


def llama() -> Built:
    return language_model(
        "llama", hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip


def qwen2() -> Built:
    return language_model(
        "qwen2", hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip


def qwen3() -> Built:
    return language_model(
        "qwen3", hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32,
    )  # fmt: skip


def mixtral() -> Built:
    return language_model(
        "mixtral", hidden_size=128, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
    )  # fmt: skip


def bert() -> Built:
    def make() -> nn.Module:
        sizes = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
        return transformers.BertForMaskedLM(transformers.BertConfig(**TOKENS, **sizes))

    return Built(make, labelled_tokens, lambda out, _: out.loss)


def t5() -> Built:
    def make() -> nn.Module:
        sizes = {"d_model": 128, "d_ff": 256, "num_layers": 3, "d_kv": 32, "num_heads": 4}
        config = transformers.T5Config(vocab_size=VOCABULARY, decoder_start_token_id=0, use_cache=False, **sizes)
        return transformers.T5ForConditionalGeneration(config)

    return Built(make, labelled_tokens, lambda out, _: out.loss)


def vit() -> Built:
    def make() -> nn.Module:
        sizes = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
        return transformers.ViTForImageClassification(transformers.ViTConfig(image_size=64, patch_size=8, **sizes))

    def batch(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        return Inputs(kwargs={"pixel_values": torch.randn(size or 8, 3, 64, 64)})

    return Built(make, batch, lambda out, _: out.logits.square().mean())


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(hidden)))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.blocks = nn.Sequential(*(Residual(32) for _ in range(4)))
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def conv_net() -> Built:
    def batch(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        return Inputs((torch.randn(size or 8, 3, 32, 32),))

    return Built(ConvNet, batch, lambda out, _: out.square().mean())


class UNet(nn.Module):
    """Two levels down, two up, with the skip connections that checkpointing must not lose."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.down = nn.ModuleList(Residual(32) for _ in range(2))
        self.up = nn.ModuleList(Residual(32) for _ in range(2))
        self.merge = nn.ModuleList(nn.Conv2d(64, 32, 1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, skips = self.stem(x), []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        for block, merge in zip(self.up, self.merge, strict=True):
            x = nn.functional.interpolate(x, scale_factor=2)
            x = block(merge(torch.cat([x, skips.pop()], 1)))
        return x


def u_net() -> Built:
    def batch(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        return Inputs((torch.randn(size or 8, 3, 32, 32),))

    return Built(UNet, batch, lambda out, _: out.square().mean())


class LSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 128)
        self.lstm = nn.LSTM(128, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embed(ids))[0])


def lstm() -> Built:
    def batch(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        return Inputs((torch.randint(0, VOCABULARY, (size or 16, seq or 64)),))

    def loss(out: object, inputs: Inputs) -> torch.Tensor:
        return nn.functional.cross_entropy(out.transpose(1, 2), inputs.args[0])

    return Built(LSTM, batch, loss)


class Perceptron(nn.Module):
    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def perceptron() -> Built:
    def batch(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        return Inputs((torch.randn(size or 1024, 128, requires_grad=True),))

    return Built(Perceptron, batch, lambda out, _: out.square().mean())


def encoder() -> Built:
    """torch's own transformer layers."""

    def make() -> nn.Module:
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        return nn.TransformerEncoder(layer, 3)

    def batch(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        return Inputs((torch.randn(size or 4, seq or 128, 128, requires_grad=True),))

    return Built(make, batch, lambda out, _: out.square().mean())


MODELS: dict[str, Callable[[], Built]] = {
    make.__name__: make
    for make in (
        gpt2, llama, qwen2, qwen3, mixtral, bert, t5, vit, conv_net, u_net, lstm, perceptron, encoder
    )
}  # fmt: skip
