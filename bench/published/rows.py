"""One row as a model, a batch, a loss and a variant; or the reason why it can't be one."""

from __future__ import annotations

import contextlib
import importlib.util
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import transformers
from bench.published import adapters, torchtitan
from bench.published.loading import load_in_four_bits
from bench.published.nf4 import Linear4bit, quantised
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers.integrations import sdpa_attention

from remat.probe.built import Built, Inputs
from remat.probe.messages import AS_WRITTEN, Variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.probe.simulated.log import Log

MODELS = json.loads((Path(__file__).parent / "models.json").read_text())
MIB, GIB = 2**20, 2**30
IN_WHOLE_MIB = "older transcription, whole MiB"
"""why rows were left out that say all that is needed, only rounded to a MiB"""
UNITS = {"MiB": MIB, "GiB": GIB, "MB (1e6)": 10**6, "GB (1e9)": 10**9, "GB (2**30)": GIB}


@dataclass(frozen=True, slots=True)
class Call:
    """What the probe is asked for one row, and what was published."""

    built: Built
    variant: Variant
    gpu: str
    published: dict[str, float]
    """bytes of: allocated, reserved, process"""
    phases: dict[str, float]
    context: float
    kernels: contextlib.AbstractContextManager[object]
    emptied: bool = False
    """reserved is that of the last step, with the cache emptied before it"""
    loading: Callable[[Log], None] = field(default=lambda _: None)
    """what loading the model did before"""
    beside: int = 0
    """bytes that the script keeps on the GPU for other things"""


class NotComparableError(Exception):
    """Why."""


def call_of(row: dict) -> Call:
    settings = row["settings"]
    refuse(row, settings)
    if settings.get("world_size", 1) != 1:
        return call_of_many_ranks(row)
    if row["sub"] in {"peft-MetaMathQA", "peft-image-gen"}:
        return call_of_adapters(row)
    name, (family, config) = model_of(settings["model"])
    causal = "SequenceClassification" not in settings["model"]
    assumptions = (f"model {name}: {family} with its public config",)
    made: list[nn.Module] = []

    def model() -> nn.Module:
        made[:] = [make_model(settings, family, config, causal=causal)]
        return made[0]

    built = Built(
        model,
        lambda *_: tokens(config["vocab_size"], settings["batch"], settings["seq"], causal=causal),
        lambda out, _: out.loss,
        make_optimizer=optimizer_of(settings),
        holds_outputs=bool(settings.get("keeps_model_output_alive_through_backward_and_step")),
        step_is_a_function=True,
        assumptions=assumptions,
    )
    variant = Variant(
        row["name"],
        checkpointing=checkpointing_of(settings),
        reentrant="reentrant" in settings["checkpointing"] and "non-reentrant" not in settings["checkpointing"],
        autocast=settings.get("autocast"),
        grad_accum=settings.get("grad_accum", 1),
    )
    phases = {k: v * MIB for k, v in row.get("phase_mib", {}).items() if v is not None}
    published = figures(row)
    call = Call(built, variant, row["gpu"], published, phases, context_of(row), kernels_of(settings))
    if settings.get("quantization") == "nf4":
        return replace(call, loading=lambda log: load_in_four_bits(log, made[0]))
    return call


def call_of_adapters(row: dict) -> Call:
    settings, of_text = row["settings"], row["sub"] == "peft-MetaMathQA"
    if of_text:
        _, (_, config) = model_of(settings["model"])
        built, beside = adapters.built_for_metamath(settings, config), 0
    else:
        built, beside = adapters.built_for_flux(settings), adapters.FLUX_BESIDE
    variant = Variant(row["name"], checkpointing="none" if of_text else AS_WRITTEN)
    kernels = contextlib.nullcontext()
    return Call(built, variant, row["gpu"], figures(row), {}, 0.0, kernels, emptied=True, beside=beside)


def call_of_many_ranks(row: dict) -> Call:
    settings = row["settings"]
    variant = Variant(row["name"], world_size=settings["world_size"])
    return Call(
        torchtitan.built(settings), variant, row["gpu"], figures(row), {}, context_of(row), contextlib.nullcontext()
    )


def refuse(row: dict, settings: dict) -> None:
    if row["tier"] in {"no", "repeat"} and not str(row["why_not"]).startswith(IN_WHOLE_MIB):
        raise NotComparableError(row["why_not"] or "repeat of another row")
    if "FLUX" in settings["model"] and importlib.util.find_spec("diffusers") is None:
        raise NotComparableError("needs diffusers, which is not installed")
    if row["sub"].startswith("peft-") and importlib.util.find_spec("peft") is None:
        raise NotComparableError("needs peft, which is not installed")
    if settings.get("world_size", 1) != 1 and row["sub"] != "torchtitan":
        raise NotComparableError("several GPUs, not by fully_shard")
    if row["versions"].get("torch", "").startswith(("about 1.", "1.")):
        raise NotComparableError(
            f"torch {row['versions']['torch']}: its softmax kept its input; estimates are of this torch"
        )
    if row["name"].endswith(adapters.LENGTH_FROM):
        raise NotComparableError("the length of all MetaMathQA rows is taken from this one")
    if settings.get("phase"):
        raise NotComparableError(f"no step, but {settings['phase']!r}")
    if settings.get("compile"):
        raise NotComparableError("torch.compile")
    if not isinstance(settings.get("seq"), int) and not row["sub"].startswith("peft-"):
        raise NotComparableError(row["why_not"] or f"the sequence length is no number: {settings.get('seq')!r}")


def model_of(text: str) -> tuple[str, tuple[str, dict]]:
    names = [name for name in MODELS if text.startswith(name)]
    if not names:
        raise NotComparableError(f"no public config at hand for {text!r}")
    best = max(names, key=len)
    return best, MODELS[best]


def make_model(settings: dict, family: str, config: dict, *, causal: bool) -> nn.Module:
    attention = "eager" if "eager" in settings.get("attention", "") else "sdpa"
    sdpa_attention.use_gqa_in_sdpa = lambda *_: False  # the rows say "K/V expanded before SDPA"
    wanted = transformers.AutoConfig.for_model(family, **{"max_position_embeddings": 8192, **config})
    if family == "gpt2":
        wanted.n_positions = 1024
    if hasattr(wanted, "use_cache") and settings.get("use_cache") is False:
        wanted.use_cache = False
    kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForSequenceClassification
    quantised_to = settings.get("quantization")
    is_nf4 = quantised_to == "nf4"
    dtype = torch.float16 if is_nf4 else DTYPES[settings["param_dtype"].split()[0]]
    model = kind.from_config(wanted, dtype=dtype, attn_implementation=attention)
    if is_nf4:
        model = quantised(model)
    if settings.get("lora"):
        model = with_lora(model, settings["lora"])
    return model


DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def with_lora(model: nn.Module, lora: dict) -> nn.Module:
    """LoRA as peft computes it: fp32 factors, the input cast to them, the result added to the layer's own."""
    for parameter in model.parameters():
        parameter.requires_grad = False
    for name, module in list(model.named_modules()):
        if name.rpartition(".")[2] in lora["targets"] and isinstance(module, nn.Linear | Linear4bit):
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], Adapted(module, lora))
    model.enable_input_require_grads()
    return model


class Adapted(nn.Module):
    def __init__(self, base: nn.Module, lora: dict) -> None:
        super().__init__()
        dtype = DTYPES[lora.get("adapter_dtype", "fp32")]
        self.base = base
        self.a = nn.Linear(base.in_features, lora["r"], bias=False, dtype=dtype)
        self.b = nn.Linear(lora["r"], base.out_features, bias=False, dtype=dtype)
        self.scaling = lora.get("alpha", 2 * lora["r"]) / lora["r"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.base(x)
        if isinstance(self.base, Linear4bit):  # peft/tuners/lora/bnb.py, Linear4bit.forward
            result = result.clone()
            return result + self.b(self.a(x)) * self.scaling
        dtype = result.dtype
        x = x.to(self.a.weight.dtype)
        result = result + self.b(self.a(x)) * self.scaling
        return result.to(dtype)


def tokens(vocabulary: int, batch: int, seq: int, *, causal: bool) -> Inputs:
    ids = torch.randint(0, vocabulary, (batch, seq))
    labels = ids if causal else torch.randint(0, 2, (batch,))
    return Inputs(kwargs={"input_ids": ids, "labels": labels})


def optimizer_of(settings: dict):
    text = settings["optimizer"]
    loop = "per-parameter" in text

    def make(parameters):
        optimizer = torch.optim.AdamW(list(parameters), lr=1e-4, **({"foreach": False} if loop else {}))
        if settings.get("set_to_none") is False:
            zero = optimizer.zero_grad
            optimizer.zero_grad = lambda *_, **__: zero(set_to_none=False)
        return optimizer

    return make


def checkpointing_of(settings: dict) -> str:
    text = settings["checkpointing"]
    if text == "none":
        return "none"
    if "every" in text or text in {"reentrant", "non-reentrant"}:
        return "all"
    raise NotComparableError(f"checkpointing {text!r} is not understood")


def figures(row: dict) -> dict[str, float]:
    unit = UNITS.get(row["unit"])
    if unit is None:
        raise NotComparableError(f"unit {row['unit']!r} is not understood")
    how, figure = row["measured_how"], row["figure"] * unit
    if "max_memory_allocated" in how:
        found = {"allocated": figure}
    elif "reserved" in how:
        found = {"reserved": figure}
    elif "NVML" in how or "nvidia-smi" in how:
        found = {"process": figure}
    else:
        raise NotComparableError(f"what was measured is not understood: {how!r}")
    if row.get("reserved_mib"):
        found["reserved"] = row["reserved_mib"] * MIB
    if row.get("reserved_mb"):
        found["reserved"] = row["reserved_mb"] * 10**6
    if row.get("process_mib"):
        found["process"] = row["process_mib"] * MIB
    return found


def context_of(row: dict) -> float:
    return (row.get("cuda_context_mib") or 0) * MIB


def kernels_of(settings: dict) -> contextlib.AbstractContextManager[object]:
    if "efficient kernel pinned" in settings.get("attention", ""):
        return sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION)
    return contextlib.nullcontext()
