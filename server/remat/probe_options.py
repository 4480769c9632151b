"""The options of `remat probe`, and the request they make."""

# What a request needs is imported when one is made: `remat --help` should not wait for it.
# ruff: noqa: PLC0415
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypedDict, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.probe.gpus import Card
    from remat.probe.messages import Variant
    from remat.probing import Asked

T = TypeVar("T")


class Given(TypedDict):
    """The options as click hands them over."""

    target: str
    output_format: str
    checkpointing: tuple[str, ...]
    reentrant: bool
    batch: tuple[int, ...] | None
    seq: tuple[int, ...] | None
    dtype: tuple[str, ...] | None
    autocast: tuple[str, ...] | None
    optimizer: tuple[str, ...]
    grad_accum: tuple[int, ...] | None
    lora_rank: tuple[int, ...] | None
    lora_targets: str | None
    world_size: tuple[int, ...] | None
    sharding: str
    device: str
    mode: str
    gpu: str | None
    budget: str | None
    advise: bool
    python: str | None
    time_limit: float
    memory_limit: str | None
    snapshot: str | None
    timeline: str | None


def _several(
    convert: Callable[[str, click.Parameter, click.Context], T],
) -> Callable[[click.Context, click.Parameter, str | None], tuple[T, ...] | None]:
    """Reads values that commas separate, each by `convert`."""

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[T, ...] | None:
        if text is None:
            return None
        return tuple(dict.fromkeys(convert(part.strip(), parameter, context) for part in text.split(",")))

    return read


def _positive(text: str, parameter: click.Parameter, context: click.Context) -> int:
    number: int = click.IntRange(min=1)(text, parameter, context)
    return number


def _optimizer(text: str, parameter: click.Parameter, context: click.Context) -> str:
    if not _OPTIMIZERS.fullmatch(text):
        raise click.BadParameter(
            f"{text!r} is no optimizer that is known; known are sgd, sgd-momentum, adam, adamw (each also with "
            "-foreach, -fused or -forloop), adamw-8bit, adafactor, none and as-written",
            context,
            parameter,
        )
    return text


def _new_file(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Refuse a file that could only be found not to be writable once the work is done."""
    if text is not None and not Path(text).absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {Path(text).parent}", context, parameter)
    return text


_CHECKPOINTING = re.compile(r"as-written|none|all|selective|(?:first|every)-[1-9]\d*|modules:.+")
_OPTIMIZERS = re.compile(
    r"as-written|none|adafactor|adamw-8bit|(sgd|sgd-momentum|adam|adamw)(-(foreach|fused|forloop))?"
)
_POSITIVE = _several(_positive)
_OPTIONS = (
    click.argument("target"),
    click.option(
        "--checkpointing",
        multiple=True,
        metavar="HOW,…",
        help="Variants to compare: as-written, none, all, first-N, every-N, selective, or modules:NAME,NAME (an "
        "option of its own).  [default: as-written, and all where the model has repeated blocks]",
    ),
    click.option("--reentrant", is_flag=True, help="Checkpoint with use_reentrant=True."),
    click.option("--batch", callback=_POSITIVE, metavar="N,…", help="Samples in a batch."),
    click.option("--seq", callback=_POSITIVE, metavar="N,…", help="Tokens in a sequence."),
    click.option(
        "--dtype",
        callback=_several(click.Choice(("fp32", "fp16", "bf16")).convert),
        metavar="DTYPE,…",
        help="Dtype of the parameters: fp32, fp16 or bf16.  [default: as the code has it]",
    ),
    click.option(
        "--autocast",
        callback=_several(click.Choice(("none", "fp16", "bf16")).convert),
        metavar="DTYPE,…",
        help="Run forward under autocast to fp16 or bf16, or none.  [default: as the code has it]",
    ),
    click.option(
        "--optimizer",
        callback=_several(_optimizer),
        default="as-written",
        metavar="NAME,…",
        help="none, sgd, sgd-momentum, adam, adamw, adafactor, adamw-8bit; the first four also with -foreach, -fused "
        "or -forloop behind.  [default: as the target says, else adamw]",
    ),
    click.option(
        "--grad-accum",
        callback=_POSITIVE,
        metavar="N,…",
        help="Batches for each optimizer step.  [default: as the code has it]",
    ),
    click.option(
        "--lora-rank", callback=_POSITIVE, metavar="R,…", help="Train LoRA adapters of this rank (needs peft)."
    ),
    click.option(
        "--lora-targets",
        metavar="NAME,…",
        help="Layers that get adapters, such as q_proj,v_proj.  [default: all linear ones but a language model's head]",
    ),
    click.option(
        "--world-size",
        callback=_POSITIVE,
        metavar="N,…",
        help="Ranks that train together: the figures are one rank's. No process is started for an estimate; for a "
        "measurement N are, through torchrun, on this machine.",
    ),
    click.option(
        "--sharding",
        type=click.Choice(("none", "ddp", "fsdp2")),
        default="none",
        show_default=True,
        help="Wrap the model in DistributedDataParallel, or call fully_shard on each repeated block and on the model; "
        "none: as the code has it.",
    ),
    click.option(
        "--device",
        type=click.Choice(("cuda", "cpu")),
        default="cuda",
        show_default=True,
        help="Whose figures are wanted; neither has to be there for an estimate.",
    ),
    click.option(
        "--mode",
        type=click.Choice(("auto", "measure", "estimate")),
        default="estimate",
        show_default=True,
        help="estimate: nothing is computed; measure: real steps on the device; auto: measure where it can be done.",
    ),
    click.option("--gpu", metavar="CARD", help="The card whose context is counted, such as T4 or A100-80GB."),
    click.option(
        "--budget", metavar="SIZE|CARD", help="Say whether it fits into so much, such as 24GiB, or into that card."
    ),
    click.option(
        "--advise",
        is_flag=True,
        help="Say what lowers the peak of the first variant and, with --budget, what makes it fit: every change is "
        "simulated.",
    ),
    click.option("--python", metavar="PATH", help="The Python that trains the model, or its environment's folder."),
    click.option(
        "--time-limit", type=click.FloatRange(min=1), default=300.0, show_default=True, metavar="S", help="In seconds."
    ),
    click.option("--memory-limit", metavar="SIZE", help="Of the process that runs the code.  [default: half of all]"),
    click.option(
        "--snapshot",
        callback=_new_file,
        metavar="FILE",
        help="Also write the timeline for https://pytorch.org/memory_viz, as torch.cuda.memory._dump_snapshot does.",
    ),
    click.option(
        "--timeline", callback=_new_file, metavar="FILE", help="Also write a page that draws what is held when (HTML)."
    ),
    click.option(
        "--output-format",
        type=click.Choice(("text", "json")),
        default="text",
        show_default=True,
        help="How the result is printed.",
    ),
)
_Parameters = ParamSpec("_Parameters")


def options(command: Callable[_Parameters, None]) -> Callable[_Parameters, None]:
    for decorate in reversed(_OPTIONS):
        command = decorate(command)
    return command


def asked(given: Given) -> Asked:
    """Make the request. Raises click's BadParameter for a value that means nothing."""
    from remat.probe.calibration import default_path, load
    from remat.probe.gpus import as_measured, budget, bytes_of, names
    from remat.probe.messages import Limits, Request
    from remat.probing import Asked as Wanted

    try:
        memory = bytes_of(given["memory_limit"]) if given["memory_limit"] else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--memory-limit") from error
    try:
        on = budget(given["budget"]) if given["budget"] else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--budget") from error
    given_card = _card(given["gpu"])
    measured = load(default_path())
    on, given_card = (as_measured(one, measured) if one else None for one in (on, given_card))
    card = given_card or (on if on is not None and on.context.low == on.context.high else None)
    named = given_card or (on if on is not None and on.name in names() else None)
    variants, optional = _variants(given)
    device, mode = given["device"], given["mode"]
    request = Request(
        target=given["target"],
        variants=variants,
        device="cpu" if device == "cpu" else "cuda",
        gpu=named.name if named else None,
        mode="measure" if mode == "measure" else "auto" if mode == "auto" else "estimate",
        limits=Limits(given["time_limit"], memory),
        snapshot=given["snapshot"],
    )
    python, timeline = given["python"], given["timeline"]
    return Wanted(request, given["output_format"], python, optional, on, card, given["advise"], timeline)


def _card(name: str | None) -> Card | None:
    from remat.probe.gpus import card, names

    found = card(name) if name else None
    if name and found is None:
        raise click.BadParameter(f"no card {name!r} is known; cards are {', '.join(names())}", param_hint="--gpu")
    return found


def _variants(given: Given) -> tuple[tuple[Variant, ...], frozenset[str]]:
    """Return the variants, and the names of those that Remat added by itself."""
    from remat.probe.messages import AS_WRITTEN
    from remat.probe.messages import Variant as Wanted

    if given["sharding"] != "none" and given["world_size"] is None:
        raise click.BadParameter("it needs the number of ranks: --world-size N", param_hint="--sharding")
    chosen = list(dict.fromkeys(_ways(given["checkpointing"])))
    if given["lora_targets"] and given["lora_rank"] is None:
        raise click.BadParameter("it needs the rank of the adapters: --lora-rank R", param_hint="--lora-targets")
    targets = tuple(filter(None, map(str.strip, (given["lora_targets"] or "").split(","))))
    base = Wanted("", reentrant=given["reentrant"], sharding=given["sharding"], lora_targets=targets)
    some = [replace(base, name=how, checkpointing=how) for how in chosen or (AS_WRITTEN, "all")]
    some = _each(some, given["optimizer"], "{}", lambda one, name: replace(one, optimizer=name))
    some = _each(some, given["batch"], "batch {}", lambda one, size: replace(one, batch=size))
    some = _each(some, given["seq"], "seq {}", lambda one, length: replace(one, seq=length))
    some = _each(some, given["dtype"], "{}", lambda one, dtype: replace(one, dtype=dtype))
    some = _each(some, given["autocast"], "autocast {}", lambda one, dtype: replace(one, autocast=dtype))
    some = _each(some, given["grad_accum"], "accumulating {}", lambda one, count: replace(one, grad_accum=count))
    some = _each(some, given["lora_rank"], "LoRA {}", lambda one, rank: replace(one, lora_rank=rank))
    some = _each(some, given["world_size"], "{} ranks", lambda one, ranks: replace(one, world_size=ranks))
    optional = [] if chosen else [one.name for one in some if one.checkpointing == "all"]
    return tuple(some), frozenset(optional)


def _each(
    variants: list[Variant], values: tuple[T, ...] | None, called: str, changed: Callable[[Variant, T], Variant]
) -> list[Variant]:
    """Every variant with every value of a setting; where there are several, the name says which."""
    if not values:
        return variants
    if len(values) == 1:
        return [changed(one, values[0]) for one in variants]
    return [
        replace(changed(one, value), name=f"{one.name}, {called.format(value)}") for one in variants for value in values
    ]


def _ways(checkpointing: tuple[str, ...]) -> Iterator[str]:
    for part in checkpointing:
        for how in [part] if part.startswith("modules:") else part.split(","):
            if not _CHECKPOINTING.fullmatch(how.strip()):
                raise click.BadParameter(
                    f"expected as-written, none, all, first-N, every-N, selective or modules:NAME,NAME, got {how!r}",
                    param_hint="--checkpointing",
                )
            yield how.strip()
