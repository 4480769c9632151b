"""The requests that Remat adds to LSP, as both ends see them: extension/protocol.ts is written from this module."""

from __future__ import annotations

from dataclasses import dataclass

from remat.probe.messages import (  # noqa: TC001 - write_protocol reads the types
    Device,
    Environment,
    Failure,
    Mode,
    Timeline,
    Variant,
    VariantResult,
)

ADVISE = "remat/advise"
APPLY_PLAN = "remat/applyPlan"
DIAGNOSE = "remat/diagnose"
PROBE = "remat/probe"
PROBE_PROGRESS = "remat/probeProgress"
PROBE_TARGETS = "remat/probeTargets"
SNAPSHOT = "remat/snapshot"


@dataclass(frozen=True, slots=True)
class DiagnoseParams:
    """
    A log to diagnose: `text`, else `paths`, the files and folders of one run.

    `cwd`: where its relative paths are meant from. `permitted`: files outside the workspace that the user lets us read.
    """

    name: str
    text: str | None = None
    paths: tuple[str, ...] = ()
    cwd: str | None = None
    permitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """Something the log proves, by these lines, counted from 1."""

    id: str
    summary: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Follower:
    """A rank that failed because another one did."""

    rank: int
    summary: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MissingFact:
    """What the log does not hold, why it matters, and how to obtain it."""

    fact: str
    why: str
    how: str


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A line of code, counted from 1, named as the log names it. `uri`: where it is on this machine, if it is."""

    path: str
    line: int
    uri: str | None


@dataclass(frozen=True, slots=True)
class Repair:
    """A lint finding that explains the failure. `line` and `character` as in LSP; `title` is that of its quick fix."""

    uri: str
    line: int
    character: int
    rule: str
    message: str
    title: str | None
    safe: bool


@dataclass(frozen=True, slots=True)
class LogLink:
    """From `start` to `end`, in UTF-16 units, a line of the log names line `line`, from 1, of a file that exists."""

    start: int
    end: int
    uri: str
    line: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log, counted from 1, without anything that could act. `proves`: some claim rests on it."""

    number: int
    text: str
    proves: bool
    links: tuple[LogLink, ...]


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a run that has several: its name among them, and the number of its first line in the whole log."""

    name: str
    first_line: int


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A file that the log names as its own. `read`: it is part of the diagnosis; else it waits for permission."""

    path: str
    what: str
    read: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """
    A report as an editor shows it.

    `log`: the lines that prove something, with those around them; `line_count`: of the whole; `files`: where each file
    begins, if there are several. `shell`: `verify` can be run in a shell as it stands. `docs`: the page about this
    kind. `markdown`: all of it to send, secrets masked.
    """

    name: str
    failed: bool
    headline: str
    cause: Statement | None
    docs: str | None
    rank: int | None
    place: CodePlace | None
    followed: tuple[Follower, ...]
    fix: str | None
    repairs: tuple[Repair, ...]
    verify: str | None
    shell: bool
    missing: tuple[MissingFact, ...]
    also: tuple[Statement, ...]
    decided: tuple[Statement, ...]
    log: tuple[LogLine, ...]
    line_count: int
    files: tuple[LogFile, ...]
    evidence: tuple[EvidenceFile, ...]
    markdown: str


@dataclass(frozen=True, slots=True)
class ProbeTargetsParams:
    """Which models does the document at `uri` hold?"""

    uri: str


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A model in a document, on lines from 0. `target` is what `remat probe` takes."""

    title: str
    target: str
    line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class ProbeParams:
    """
    Estimate or measure each of `variants`. A cancelled request ends the worker.

    `token` names it in its progress. `mode`: estimate, measure or auto. `folder`: where relative paths start.
    """

    token: str
    target: str
    folder: str
    variants: tuple[Variant, ...]
    device: Device = "cuda"
    gpu: str | None = None
    mode: Mode = "estimate"


@dataclass(frozen=True, slots=True)
class ProbeProgress:
    """What the probe that `token` names is doing now; `done` of `of` variants are finished."""

    token: str
    stage: str
    variant: str | None
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class ProbeCard:
    """A graphics card. `verdicts`: for each variant, in order: fits, does not fit, or too close to call."""

    name: str
    usable_bytes: int
    verdicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanBlocks:
    """Modules of one list: `path` is where they stand, `decoder.layers.*`; of `of` of them `count` are checkpointed."""

    path: str
    count: int
    of: int


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """
    What became of a probe. `environment`: None where the worker did not start.

    `gpu`: what the table calls the card that was asked for; None where it has none of that name. `plans`: for each
    variant, in order, what its checkpointing came to, for `PlanParams`. `unmeasured`: why a measurement that was wanted
    was not made.
    """

    target: str
    environment: Environment | None
    seconds: float
    variants: tuple[VariantResult, ...]
    failures: tuple[Failure, ...]
    cards: tuple[ProbeCard, ...]
    gpu: str | None
    plans: tuple[tuple[PlanBlocks, ...], ...]
    unmeasured: str | None = None


@dataclass(frozen=True, slots=True)
class PlanParams:
    """
    Checkpoint in the code of `target`. `way`: as in `Variant.checkpointing`; `blocks`: what that came to, and for the
    way `none` what the code as written came to.
    """

    target: str
    folder: str
    way: str
    blocks: tuple[PlanBlocks, ...]


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """
    What became of a plan. `applied`: the editor has made the edit at `uri`, from `line` on, counted from 1.

    `what`: the change, else why there is none. `notes`: what to know about it. `code`: what to write by hand instead.
    """

    applied: bool
    what: str
    notes: tuple[str, ...] = ()
    code: str = ""
    uri: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class AdviseParams:
    """What to change about `variant`, so that it needs less and fits into `gpu`. `token` names it in its progress."""

    token: str
    target: str
    folder: str
    variant: Variant
    gpu: str | None = None


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """
    One change, simulated: the peak `before` and `after` it. `verdict`: whether that fits into the card, if any.

    `variant`: the one with the change. `plan`: what its checkpointing came to, where it is a plan that can be written.
    """

    what: str
    variant: Variant
    before_bytes: int
    after_bytes: int
    peak_phase: str
    verdict: str | None = None
    plan: tuple[PlanBlocks, ...] = ()


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """`size`: the largest that surely fits, 0 where none does; `beyond` was tried and does not."""

    size: int
    beyond: int | None
    minimum_bytes: int | None


@dataclass(frozen=True, slots=True)
class FewestBlocks:
    """So that it fits, by checkpointing alone: `row`, for `count` of `of` blocks. Infeasible: not even all suffice."""

    count: int
    of: int
    infeasible: bool
    row: AdviceRow


@dataclass(frozen=True, slots=True)
class AdviseAnswer:
    """
    What lowers the peak. `dominant`: what the peak consists of; `why`: why checkpointing alone moves it little.

    `changes`: single ones, the greatest gain first. `steps`: one on top of the other, until it fits into `gpu`.
    """

    gpu: str | None
    dominant: str
    why: str | None
    changes: tuple[AdviceRow, ...]
    steps: tuple[AdviceRow, ...]
    fits: bool | None
    largest_batch: LargestBatch | None
    fewest_blocks: FewestBlocks | None
    simulated: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class SnapshotParams:
    """A file of `torch.cuda.memory._dump_snapshot`."""

    path: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a real run recorded; `peak_bytes` are those that tensors asked for."""

    name: str
    timeline: Timeline
    peak_bytes: int
