"""A plan for classes whose own code runs the blocks: each loop that does is edited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remat.lint.code.gradients import function_may_switch_off
from remat.lint.layers.training_paths import runs_in_training
from remat.plan.naming import class_attribute, imported
from remat.plan.plan import ByHand, Written
from remat.plan.selective import MODULE, policy
from remat.plan.wrapping import Form, UnfitError, doubts, wrap_loop, wrap_sequence

if TYPE_CHECKING:
    from remat.finding import Edit
    from remat.lint.code.source import Source
    from remat.lint.layers.loops import LayerLoop
    from remat.plan.plan import Blocks, Outcome, Plan
    from remat.plan.stacks import Ran

_NOT_REENTRANT = "use_reentrant=False"
_SELECTIVE = f"""\
from functools import partial
from {MODULE} import checkpoint, create_selective_checkpoint_contexts

# keep what these make, and make the rest again (torch >= 2.4)
keep = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default]
contexts = partial(create_selective_checkpoint_contexts, keep)

"""


@dataclass(frozen=True, slots=True)
class _Part:
    """What of one list of blocks is checkpointed: `every` n-th, or the `first` few, or all of them."""

    blocks: Blocks
    ran: Ran
    every: int = 1
    first: int | None = None


def write_loops(source: Source, ran: list[tuple[int, Ran]], plan: Plan) -> Outcome:
    """`ran`: where each list of `plan.blocks` is run, by its place in there."""
    function, last, edits = _called(source, ran, plan)
    notes: list[str] = []
    try:
        parts = [part for part in _parts(ran, plan) if part is not None]
        for part in parts:
            more, said = _edits(source, part, function, last)
            edits += [edit for edit in more if edit not in edits]
            notes += [note for note in said if note not in notes]
    except UnfitError as error:
        return ByHand(sentence(error), by_hand(plan, function))
    lists = " and ".join(f"`{part.ran.layers}`" for part in parts)
    what = f"{_which(plan)} {lists} now {'runs' if plan.first is None else 'run'} under checkpoint() in training"
    what += ", which keeps what products and attention make" if plan.way == "selective" else ""
    return Written(tuple(edits), what, tuple(notes))


def _called(source: Source, ran: list[tuple[int, Ran]], plan: Plan) -> tuple[str, str, list[Edit]]:
    """How the file calls checkpoint(), what ends that call, and the edits that both need."""
    if plan.way != "selective":
        (function,), edits = imported(source, MODULE, "checkpoint")
        return function, _NOT_REENTRANT, edits
    start = min(part.piece.start for _, one in ran for part in one.owner.parts)
    contexts, (function,), edits = policy(source, start, "checkpoint")
    return function, f"{_NOT_REENTRANT}, context_fn={contexts}", edits


def _which(plan: Plan) -> str:
    if plan.first is not None:
        return f"The first {plan.first} blocks of" if plan.first > 1 else "The first block of"
    return "Every block of" if plan.every == 1 else f"One block in {plan.every} of"


def _parts(ran: list[tuple[int, Ran]], plan: Plan) -> list[_Part | None]:
    """Raises UnfitError where the lists together are counted otherwise than each by itself."""
    found: list[_Part | None] = []
    before = 0
    for number, one in ran:
        blocks = plan.blocks[number]
        if plan.way.startswith("modules:"):
            raise UnfitError("single modules are named")
        if plan.every > 1 and before % plan.every:
            raise UnfitError(f"one block in {plan.every} is counted through several lists of blocks")
        if plan.way in {"all", "selective"} and blocks.count != blocks.of:
            raise UnfitError(f"`{one.layers}` holds {blocks.of} modules, of which {blocks.count} are blocks")
        first = None if plan.first is None else min(plan.first - before, blocks.of)
        if first is None or first > 0:
            found.append(_Part(blocks, one, plan.every, None if first == blocks.of else first))
        before += blocks.of
    return found


def _edits(source: Source, part: _Part, function: str, last: str) -> tuple[list[Edit], list[str]]:
    position = ""
    edits: list[Edit] = []
    owner = part.ran.owner.name
    if part.every > 1:
        about = f"one in so many of {part.ran.layers}: 1 is all of them"
        position, edits = _setting(source, owner, "checkpoint_every", part.every, about)
        position = f"{{i}} % {position} == 0"
    elif part.first is not None:
        about = f"so many of {part.ran.layers}, from the first on"
        position, edits = _setting(source, owner, "checkpoint_first", part.first, about)
        position = f"{{i}} < {position}"
    form = Form(function, last, position)
    notes: list[str] = []
    trained = [stack for stack in part.ran.loops if _trains(stack.loop)]
    for stack in trained:
        notes += doubts(stack)
        edits += wrap_loop(source, stack, form)
    for call in part.ran.called:
        edits += wrap_sequence(source, call, part.ran.layers, form)
    if not trained and not part.ran.called:
        raise UnfitError(f"no loop over `{part.ran.layers}` runs in training")
    return edits, notes


def _trains(loop: LayerLoop) -> bool:
    """Whether the loop runs with gradients, as far as its method shows: nothing is kept elsewhere."""
    function = loop.function
    if function is None or function_may_switch_off(function):
        return False
    return runs_in_training(loop.place, loop.loop, function)


def _setting(source: Source, owner: str, name: str, value: int, about: str) -> tuple[str, list[Edit]]:
    made = class_attribute(source, owner, name, value, about)
    if made is None:
        raise UnfitError(f"`{owner}` has no place for the number {value}")
    return f"self.{made[0]}", made[1]


def sentence(error: UnfitError) -> str:
    """What it says, with a capital letter."""
    text = str(error)
    return text[:1].upper() + text[1:] if not text.startswith("`") else text


def by_hand(plan: Plan, function: str = "checkpoint") -> str:
    """The loop as a person would write it."""
    test, last = "self.training", _NOT_REENTRANT
    head = f"from {MODULE} import checkpoint\n\n"
    if plan.every > 1:
        test += f" and i % {plan.every} == 0"
    if plan.first is not None:
        test += f" and i < {plan.first}"
    if plan.way == "selective":
        head, last = _SELECTIVE, f"{_NOT_REENTRANT}, context_fn=contexts"
    return (
        f"{head}"
        "for i, block in enumerate(self.blocks):\n"
        f"    if {test}:\n"
        f"        x = {function}(block, x, {last})\n"
        "    else:\n"
        "        x = block(x)"
    )
