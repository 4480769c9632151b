"""The distributions whose versions decide what a rule may claim."""

from __future__ import annotations

LIBRARIES = frozenset(
    {
        "accelerate",
        "axolotl",
        "bitsandbytes",
        "colossalai",
        "deepspeed",
        "diffusers",
        "fairscale",
        "flash-attn",
        "lightning",
        "llamafactory",
        "megatron-core",
        "mosaicml",
        "optimum",
        "peft",
        "pytorch-lightning",
        "sentence-transformers",
        "timm",
        "torch",
        "torchao",
        "torchtitan",
        "torchtune",
        "torchvision",
        "transformers",
        "trl",
        "unsloth",
        "xformers",
    }
)
