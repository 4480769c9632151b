"""Memory of common graphics cards, and whether what a step needs fits into one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from remat.probe.messages import AGREES_WITHIN, Range

if TYPE_CHECKING:
    from remat.probe.calibration import Calibration
    from remat.probe.messages import VariantResult

MIB, GIB = 2**20, 2**30
_UNITS = {
    "": 1,
    "b": 1,
    "kib": 2**10,
    "mib": MIB,
    "gib": GIB,
    "tib": 2**40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)

UNKNOWN_CONTEXT = Range(100 * MIB, 700 * MIB)
"""What the driver takes for a process, beside the allocator: 105 to 141 MiB on a T4, 287 MB and 667 MB with lazy and
eager loading of kernels (pytorch/pytorch#86509), 426 MiB on an RTX 6000 Ada (unslothai/unsloth-zoo#1053)."""
NCCL = Range(544 * MIB, int(1.6 * GIB))
"""What NCCL takes beside the allocator for a group of several ranks: 544 MB for two A100, 688 MB for four
(NVIDIA/nccl#964), 1.6 GB for one group (NVIDIA/nccl#864). It grows with the channels, and every group takes more;
all-to-all took 3.3 GB on eight H100 (NVIDIA/nccl#1685)."""
_RESERVED_ERROR = 0.10
"""How much too low estimates of reserved memory were at worst on published runs: 4-bit weights by 10 %, convolutions by
9 %, all others by 6 % (bench/RESULTS.md)."""


class Verdict(Enum):
    FITS = "fits"
    DOES_NOT_FIT = "does not fit"
    TOO_CLOSE = "too close to call"


@dataclass(frozen=True, slots=True)
class Card:
    """`usable`: bytes that PyTorch gives as the card's total, which is less than what it is sold as: the least known.

    `most`: the largest that is known (0: `usable` is exact). `source`: where the figures are from; none: not published.
    `bf16`: whether its cores compute in bf16 (compute capability 8.0 and above); others emulate it, slowly.
    """

    name: str
    usable: int
    context: Range = UNKNOWN_CONTEXT
    aliases: tuple[str, ...] = ()
    most: int = 0
    source: str = ""
    bf16: bool = True

    @property
    def largest(self) -> int:
        return max(self.usable, self.most)


UNKNOWN = Card("unknown", 0)


_UNPUBLISHED = 0.02
"""How far a total without a source may be off: totals of one card differ by up to 1.3 % (T4) with driver and ECC."""


_WITHOUT_BF16 = frozenset({"T4", "P100", "V100-16GB", "V100-32GB", "GTX 1080 Ti", "RTX 2080 Ti"})


def _card(name: str, gib: float, *aliases: str, source: str, most: float = 0, context: Range | None = None) -> Card:
    bf16 = name not in _WITHOUT_BF16
    return Card(name, int(gib * GIB), context or UNKNOWN_CONTEXT, aliases, int(most * GIB), source, bf16)


def _unpublished(name: str, gib: float, *aliases: str) -> Card:
    low, high = gib * (1 - _UNPUBLISHED), gib * (1 + _UNPUBLISHED)
    return Card(name, int(low * GIB), UNKNOWN_CONTEXT, aliases, int(high * GIB), bf16=name not in _WITHOUT_BF16)


# The "total capacity" that PyTorch prints when memory runs out, on Linux; Windows gives nearly what a card is sold as.
CARDS = (
    _card(
        "T4", 14.56, most=14.75, context=Range(140.875 * MIB, 140.875 * MIB),
        source="fitcheck-llm 0.3.1, 69 runs; hpcaitech/Open-Sora#697",
    ),
    _card("P100", 15.89, most=15.90, source="YOLOv5's Colab logs: total_memory=16280MB"),
    _card(
        "V100-16GB", 15.75, "V100", most=15.79,
        source="ultralytics/yolov3's and yolov5's READMEs: total_memory=16130MB, 16160MB; kchengiva/Shift-GCN#34",
    ),
    _card("V100-32GB", 31.74, source="liucongg/ChatGLM-Finetuning#73"),
    _card("A10", 21.98, "A10G", most=22.20, source="zai-org/CogVLM#236, XavierXiao/Dreambooth-Stable-Diffusion#18"),
    _card("A30", 23.53, source="google/RB-Modulation#5"),
    _card("A40", 44.34, most=44.36, source="a printed get_device_properties: total_memory=45416MB"),
    _card(
        "A100-40GB", 39.38, most=39.59,
        source="TianheWu/CoSeR#10 (39.50), raoyongming/DenseCLIP#52, Paddle's documentation: total_memory=40536MB; "
        "the least: the OutOfMemoryErrors of nine public logs",
    ),
    _card("A100-80GB", 79.14, "A100", most=79.25, source="lianqi1008/Control-GIC#6, HiDream-ai/VAREdit#6"),
    _card(
        "L4", 22.03, most=22.49,
        source="OutOfMemoryErrors of public logs, one on eight L4 of a g2-standard-96; "
        "lmstudio-ai/lmstudio-bug-tracker#1638 (nvidia-smi's total, the larger)",
    ),
    _card(
        "L40S", 44.40, "L40", most=44.53,
        source="QwenLM/Qwen3-VL#2097, stepfun-ai/Step-Video-T2V#8, Wan-Video/Wan2.1#205",
    ),
    _card("H100", 79.11, "H100-80GB", source="vllm-project/vllm#27508"),
    _unpublished("H100-NVL", 93.00),
    _card("H20", 95.00, most=95.01, source="a printed get_device_properties: total_memory=97285MB"),
    _card("H200", 139.79, most=139.81, source="ai-bot-pro/achatbot, deploy/modal: total_memory=143156MB"),
    _card("B200", 178.34, most=178.37, source="ai-bot-pro/achatbot, deploy/modal: total_memory=182642MB"),
    _unpublished("GTX 1080 Ti", 10.91),
    _card("RTX 2080 Ti", 10.76, source="ispc-lab/TMA#5, JDAI-CV/image-captioning#11"),
    _card("RTX 3060", 11.75, most=11.76, source="Kunhao-Liu/StyleGaussian#12, TencentARC/PhotoMaker#47"),
    _card("RTX 3080", 9.78, source="zai-org/CogVideo#34"),
    _card("RTX 3090", 23.68, "RTX 3090 Ti", source="3DTopia/OpenLRM#42"),
    _unpublished("RTX 4060 Ti 16GB", 15.60),
    _unpublished("RTX 4070", 11.70, "RTX 4070 Ti"),
    _card(
        "RTX 4080", 15.67, most=15.99,
        source="a printed get_device_properties: total_memory=16049MB; aigc-apps/sd-webui-EasyPhoto#281 (Windows)",
    ),
    _card(
        "RTX 4090", 23.52, most=23.64,
        source="Soul-AILab/SoulX-FlashTalk#5, pinokiofactory/flux-webui#11, 3DTopia/Phidias-Diffusion#8",
    ),
    _unpublished("RTX 5080", 15.45),
    _card("RTX 5090", 31.36, most=31.37, source="TrajectoryCrafter/TrajectoryCrafter#20, Wan-Video/Wan2.1#465"),
    _card("RTX A4000", 15.61, "A4000", source="DengKaiCQ/VGGT-Long#6"),
    _card(
        "RTX A5000", 23.54, "A5000", most=23.58,
        source="two printed get_device_properties: total_memory=24114MB, 24138MB",
    ),
    _card("RTX A6000", 47.53, "A6000", most=47.54, source="a printed get_device_properties: total_memory=48676MB"),
    _card(
        "RTX 6000 Ada", 44.43, most=47.37, context=Range(426 * MIB, 426 * MIB),
        source="DINGYANB/MTVCrafter#21 (the smaller, with ECC); its context: unslothai/unsloth-zoo#1053",
    ),
)  # fmt: skip


def card(name: str) -> Card | None:
    """Find a card by its name, as people and drivers write it: `A100-80GB`, `NVIDIA GeForce RTX 4090`."""
    wanted = _key(name)
    return next((c for c in CARDS if wanted in {_key(c.name), *map(_key, c.aliases)}), None)


def as_measured(found: Card, known: Calibration) -> Card:
    """The card with the context that measurements on this machine gave it; as it is where nothing was measured."""
    contexts = [item.context_bytes for item in known.constants if _is(found, item.gpu)]
    return replace(found, context=contexts[-1]) if contexts else found


def _is(found: Card, name: str) -> bool:
    same = card(name)
    return same is not None and same.name == found.name


def names() -> tuple[str, ...]:
    return tuple(c.name for c in CARDS)


def _key(name: str) -> str:
    short = re.sub(r"nvidia|geforce|tesla|rtx|gtx|gpu|pcie|sxm\d?|hbm\d?e?", "", name.lower())
    return re.sub(r"[^a-z0-9]", "", short)


def bytes_of(text: str) -> int:
    """Read `24GiB`, `24 GB` or `25769803776`; ValueError for anything else, or for nothing."""
    match = _SIZE.fullmatch(text.strip())
    unit = match["unit"].lower() if match else ""
    if match is None or unit not in _UNITS:
        raise ValueError(f"expected a size such as 24GiB or a card such as A100-80GB, got {text!r}")
    size = int(float(match["number"]) * _UNITS[unit])
    if size < MIB:
        raise ValueError(f"expected a size such as 24GiB, got {text!r}, which is {size} bytes")
    return size


def budget(text: str) -> Card:
    """Read what `--budget` means: a card's name, or a size of memory."""
    found = card(text)
    if found is not None:
        return found
    try:
        return Card(text.strip(), bytes_of(text))
    except ValueError as error:
        raise ValueError(f"{error}; cards are {', '.join(names())}") from error


def process_bytes(result: VariantResult, on: Card) -> Range:
    """What the driver will show for the process: what is reserved, the card's context, and what NCCL takes."""
    if result.process_bytes is not None and result.process_bytes.low == result.process_bytes.high:
        return result.process_bytes
    reserved = result.reserved_bytes if result.reserved_bytes is not None else result.allocated_bytes
    beside = beside_the_allocator(on, result.world_size)
    return Range(reserved + beside.low, reserved + beside.high)


def beside_the_allocator(on: Card, ranks: int | None) -> Range:
    """The card's context, and what NCCL takes where several ranks train together."""
    if ranks is None or ranks < 2:
        return on.context
    return Range(on.context.low + NCCL.low, on.context.high + NCCL.high)


def verdict(result: VariantResult, on: Card) -> Verdict:
    """Judge whether a step fits into a card.

    It can't where even what is allocated, with the least context, is more than the most that such a card has; it
    does where what is reserved, with the error that estimates had and the largest context, is less than the least.
    Between the two it is not known.
    """
    context = 0 if _is_of_a_cpu(result) else on.context.low
    if result.allocated_bytes + context > on.largest:
        return Verdict.DOES_NOT_FIT
    return Verdict.FITS if surely_needed(result, on) <= on.usable else Verdict.TOO_CLOSE


def surely_needed(result: VariantResult, on: Card) -> int:
    """Bytes that are enough: what is reserved, with the largest context and the error that estimates had.

    On a CPU there is neither; what an estimate may be off is what its self-check allows.
    """
    if _is_of_a_cpu(result):
        return int(result.allocated_bytes * (1 + AGREES_WITHIN * (result.kind == "estimated")))
    error = _RESERVED_ERROR if result.kind == "estimated" else 0.0
    return int(process_bytes(result, on).high + error * (result.reserved_bytes or result.allocated_bytes))


def _is_of_a_cpu(result: VariantResult) -> bool:
    return result.reserved_bytes is None
