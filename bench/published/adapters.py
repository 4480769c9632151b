"""Rows of peft's method comparison: the adapters are peft's own, the loop is that of its scripts.

Their scripts note what is reserved after each step, and empty the cache every 10 (MetaMathQA) or 25 steps: the figure
is the need of one step after an empty cache. The longest batch of MetaMathQA is a property of the data set and not
published; one length stands for all of its rows: 704 tokens, with which the plain LoRA row of rank 64 is 0.1 % off.
That row is not compared.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING

import peft
import torch
import transformers
from torch import nn
from transformers.integrations import sdpa_attention

from remat.probe.built import Built, Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH = 704
LENGTH_FROM = "lora--llama-3.2-3B-rank64-rslora"
OF_LENGTH = (
    f"4 x {LENGTH} tokens with padding: one length for the whole group, from its plain LoRA row of rank 64",
    "reserved: of the second step, after the cache was emptied; evaluation by generation is not part of it",
    "the batch before the longest is short, so that what is held of its output counts for nothing",
)
OF_FLUX = (
    "1024 image and 512 text tokens; the loss is the mean squared error in fp32",
    "prompts' embeddings and dinov2-base, which the script keeps on the GPU, are added as the row gives them",
    "reserved: of the second step, after the cache was emptied, as every 25 steps; generated images are not part of it",
)
FLUX_BESIDE = 14 * 512 * 7680 * 2 + 86_600_000 * 4
"""cached prompts in bf16 and dinov2-base in fp32"""


def built_for_metamath(settings: dict, config: dict) -> Built:
    late = LateZero()

    def model() -> nn.Module:
        sdpa_attention.use_gqa_in_sdpa = lambda *_: False
        wanted = transformers.AutoConfig.for_model("llama", **{"max_position_embeddings": 8192, **config})
        base = transformers.AutoModelForCausalLM.from_config(wanted, dtype=torch.bfloat16, attn_implementation="sdpa")
        return adapted(base, settings["peft"] and {**settings["peft"], "task_type": "CAUSAL_LM"})

    def batch(*_: object) -> Inputs:
        late.zero()
        ids = torch.randint(0, config["vocab_size"], (settings["batch"], LENGTH))
        return Inputs(kwargs={"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids})

    return Built(
        model,
        batch,
        lambda out, _: out.loss,
        make_optimizer=lambda parameters: late.of(clipped_adamw(parameters)),
        holds_outputs=True,
        step_is_a_function=True,
        assumptions=OF_LENGTH,
    )


class LateZero:
    """The scripts drop the gradients when the next batch is there: they live while the cache is emptied."""

    def __init__(self) -> None:
        self._zero: Callable[[], None] = lambda: None

    def of(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        self._zero = optimizer.zero_grad
        optimizer.zero_grad = lambda *_, **__: None
        return optimizer

    def zero(self) -> None:
        self._zero()


def built_for_flux(settings: dict) -> Built:
    from diffusers import Flux2Transformer2DModel  # noqa: PLC0415  (only these rows need it)

    late = LateZero()

    def model() -> nn.Module:
        base = Flux2Transformer2DModel(
            in_channels=128, num_layers=5, num_single_layers=20, num_attention_heads=24, attention_head_dim=128,
            joint_attention_dim=7680, guidance_embeds=False,
        ).to(torch.bfloat16)  # fmt: skip
        base.enable_gradient_checkpointing()
        return adapted(base, settings["peft"])

    def batch(*_: object) -> Inputs:
        count, half = settings["batch"], torch.bfloat16
        late.zero()
        return Inputs(
            kwargs={
                "hidden_states": torch.randn(count, 1024, 128, dtype=half),
                "encoder_hidden_states": torch.randn(count, 512, 7680, dtype=half),
                "timestep": torch.rand(count, dtype=half),
                "img_ids": torch.zeros(count, 1024, 4),
                "txt_ids": torch.zeros(count, 512, 4),
                "guidance": None,
                "return_dict": False,
            }
        )

    def loss(output: object, _: Inputs) -> torch.Tensor:
        predicted = output[0]
        return nn.functional.mse_loss(predicted.float(), torch.zeros_like(predicted).float())

    return Built(
        model,
        batch,
        loss,
        make_optimizer=lambda parameters: late.of(clipped_adamw(parameters)),
        holds_outputs=True,
        assumptions=OF_FLUX,
    )


def adapted(base: nn.Module, settings: dict | None) -> nn.Module:
    if settings is None:
        return base
    if settings["peft_type"] == "OFT" and "r" in settings:  # today's default of the block size would contradict it
        settings = {"oft_block_size": 0, **settings}
    with warnings.catch_warnings(action="ignore"):
        return peft.get_peft_model(base, peft.get_peft_config(dict(settings)))


def clipped_adamw(parameters: object) -> torch.optim.Optimizer:
    """AdamW whose step clips the gradients first, as the scripts do."""
    chosen = list(parameters)
    optimizer = torch.optim.AdamW(chosen, lr=1e-4)
    step = optimizer.step

    @functools.wraps(step)
    def clipped(*args: object, **kwargs: object) -> object:
        nn.utils.clip_grad_norm_(chosen, 1.0)
        return step(*args, **kwargs)

    optimizer.step = clipped
    return optimizer
