"""What the probe's parent and its worker say to each other; the standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Device: TypeAlias = Literal["cuda", "cpu"]
Mode: TypeAlias = Literal["estimate", "measure", "auto"]

AS_WRITTEN = "as-written"
"""The checkpointing (or optimizer) the user's own code sets up, left as it is."""


SELECTIVE_KEEPS = (
    "mm.default",
    "addmm.default",
    "bmm.default",
    "convolution.default",
    "_scaled_dot_product_flash_attention.default",
    "_scaled_dot_product_efficient_attention.default",
    "_scaled_dot_product_flash_attention_for_cpu.default",
)
"""Operators of torch.ops.aten whose results the checkpointing "selective" keeps: matrix products and attention."""

TRL_CONFIGS = frozenset(f"{one}Config" for one in ("SFT", "DPO", "GRPO", "KTO", "ORPO", "CPO", "Reward", "RLOO"))
"""Classes of TRL that are transformers' TrainingArguments by another name."""

AGREES_WITHIN = 0.02
"""How far an estimate may be from a measurement, as a share of that, before it is said that it is wrong there."""
MATTERS_FROM = 2.0**20
"""Bytes: a difference below it is what threads and communication keep, and says nothing of how good estimates are."""


def is_far(estimated: int, measured: int) -> bool:
    """Whether an estimate is so far from the measurement that the user has to know."""
    return abs(estimated - measured) > max(AGREES_WITHIN * measured, MATTERS_FROM)


# ---- what is asked


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the step. `None` means: as the user's code or the target's defaults say."""

    name: str
    checkpointing: str = AS_WRITTEN
    """as-written | none | all | first-N | every-N | selective | modules:NAME,NAME,..., where `*` is any text"""
    reentrant: bool = False
    dtype: str | None = None
    """of the parameters: fp32 | fp16 | bf16"""
    autocast: str | None = None
    """fp16 | bf16"""
    optimizer: str = AS_WRITTEN
    """as-written (the target's, else adamw) | none | sgd | sgd-momentum | adam | adamw | adafactor | adamw-8bit;
    sgd*, adam and adamw may end in -foreach, -fused or -forloop"""
    batch: int | None = None
    seq: int | None = None
    grad_accum: int | None = None
    """batches for each step of the optimizer"""
    lora_rank: int | None = None
    lora_targets: tuple[str, ...] = ()
    world_size: int | None = None
    """ranks that train together, of which the figures are one's; None: the code trains alone"""
    sharding: str = "none"
    """what is put around the model, as torch's own: none (the code may do it itself) | ddp | fsdp2"""


@dataclass(frozen=True, slots=True)
class Limits:
    seconds: float = 300.0
    """for the whole request"""
    memory_bytes: int | None = None
    """of the worker process"""


@dataclass(frozen=True, slots=True)
class Request:
    target: str
    """as the user typed it: `file.py:Name`, `file.py`, `hf:FOLDER-or-NAME`"""
    variants: tuple[Variant, ...]
    folder: str = "."
    """where relative paths start"""
    device: Device = "cuda"
    """whose figures are wanted"""
    gpu: str | None = None
    """name of the GPU, for its context and workspaces, e.g. "T4"; None: not known"""
    mode: Mode = "estimate"
    """auto: estimate, and measure beside it where the device is here"""
    limits: Limits = Limits()
    snapshot: str | None = None
    """a file for the timeline in the format of torch.cuda.memory._snapshot; several results have a file each, with
    the variant's name, and `measured`, before the suffix"""


# ---- what comes back


@dataclass(frozen=True, slots=True)
class Location:
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact the probe can't know, and the line or option that tells it."""

    fact: str
    how: str


@dataclass(frozen=True, slots=True)
class Range:
    """Both ends are the same where the value is known."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LineBytes:
    """Activations that forward leaves alive for backward, by the innermost line outside torch that made them."""

    path: str
    line: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ModuleBytes:
    """Modules of one kind in places of one kind: `module` is a pattern, `layers.*.mlp`."""

    module: str
    class_name: str
    count: int
    parameter_bytes: int
    saved_bytes: int
    """activations made in it (submodules included) that forward leaves alive for backward"""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Modules whose forward ran again during backward."""

    module: str
    class_name: str
    count: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Modules whose forward did not run again and whose activations stayed alive until backward."""

    module: str
    class_name: str
    count: int
    saved_bytes: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A phase begins at this point of the timeline."""

    point: int
    phase: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bytes alive, by category, at points along the two steps; few enough to draw, the peak always among them."""

    categories: tuple[str, ...]
    points: tuple[tuple[int, ...], ...]
    """for each point the bytes of each category, in the order of `categories`"""
    events: tuple[int, ...]
    """for each point how many allocations and frees came before it"""
    modules: tuple[str, ...]
    """for each point the module that was running, or an empty text"""
    marks: tuple[Mark, ...]
    peak: int
    """index of the point where most is allocated"""


@dataclass(frozen=True, slots=True)
class PhasePeak:
    phase: str
    """load | forward | backward | optimizer, of the last step"""
    allocated_bytes: int


@dataclass(frozen=True, slots=True)
class RankFigures:
    """What one of several ranks took that were measured together."""

    rank: int
    allocated_bytes: int
    reserved_bytes: int | None
    process_bytes: Range | None
    step_seconds: float


@dataclass(frozen=True, slots=True)
class VariantResult:
    name: str
    kind: Literal["estimated", "measured"]
    allocated_bytes: int
    """the highest value of what the allocator has handed out (512-byte rounding included for cuda)"""
    reserved_bytes: int | None
    """the highest value of what the allocator took from the driver; None for cpu"""
    process_bytes: Range | None
    """reserved and the context of the GPU; a range where the GPU is not known; None for cpu"""
    peak_phase: str
    phases: tuple[PhasePeak, ...]
    saved_activation_bytes: int
    by_category: dict[str, int]
    """what is alive at the peak"""
    by_line: tuple[LineBytes, ...]
    by_module: tuple[ModuleBytes, ...]
    recompute_flops_ratio: Range
    """floating-point operations of a step, divided by those of the same step without recomputation"""
    step_seconds: float | None
    """measured only: the median of at least five steps, warmed up, making the batch left out"""
    checkpointed: tuple[Recomputed, ...]
    not_checkpointed: tuple[Kept, ...]
    active: bool
    """some module was recomputed"""
    inactive_because: str | None
    assumptions: tuple[str, ...]
    verified: bool
    timeline: Timeline
    step_seconds_range: Range | None = None
    """measured only: the fastest and the slowest of these steps"""
    world_size: int | None = None
    """the figures are of one of so many ranks, the one that needs most"""
    batch: int | None = None
    """samples in the batch that was made, of one of `grad_accum`"""
    seq: int | None = None
    """its tokens in a sequence; None where it has none, as with images"""
    grad_accum: int = 1
    """batches for each step of the optimizer"""
    ranks: tuple[RankFigures, ...] = ()
    """measured only: of each rank, where several ran together; the result's own figures are those that took most"""


@dataclass(frozen=True, slots=True)
class Environment:
    """The first event: who answers."""

    python: str
    versions: dict[str, str]
    """of torch, transformers, peft, where installed"""


@dataclass(frozen=True, slots=True)
class Progress:
    stage: Literal["import", "build", "forward", "backward", "optimizer", "replay", "measure", "self-check"]
    variant: str | None
    done: int
    """variants finished"""
    of: int


@dataclass(frozen=True, slots=True)
class Failure:
    variant: str | None
    stage: str
    message: str
    location: Location | None = None
    missing: Missing | None = None
    details: str = ""
    """the traceback, for the log"""


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """Why there is an estimate only, though a measurement was wanted where one is possible, and what to do."""

    variant: str
    why: str
    how: str


@dataclass(frozen=True, slots=True)
class Log:
    """A text for the log: what the user's code printed, or what the worker noticed."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """The last event of a request."""

    seconds: float


Event: TypeAlias = "Environment | Progress | VariantResult | Failure | Unmeasured | Log | Done"
