"""Checkpointing that the probe chose, written into classes whose own loops run the blocks."""

from __future__ import annotations

import re
import textwrap

import pytest

from remat.finding import apply_edits
from remat.lint.check import check
from remat.lint.rule import Context
from remat.plan.plan import Blocks, ByHand, Place, Plan, Written
from remat.plan.write import write
from remat.versions import Versions

HEAD = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4)

    def forward(self, x, mask=None):
        return x + self.attention(x, x, x)[0]


class Tower(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])

    def forward(self, x, mask=None):
"""
ALL = Plan("all", (Blocks("blocks.*", 4, 4),))
EVERY = Plan("every-2", (Blocks("blocks.*", 2, 4),))
FIRST = Plan("first-3", (Blocks("blocks.*", 3, 4),))
SELECTIVE = Plan("selective", ALL.blocks)


def tower(forward: str, blocks: str = "") -> str:
    text = HEAD + textwrap.indent(textwrap.dedent(forward).strip("\n"), " " * 8) + "\n"
    return text.replace("nn.ModuleList([Block(width) for _ in range(depth)])", blocks) if blocks else text


def written(text: str, plan: Plan = ALL, place: Place | None = None) -> str:
    outcome = write(text, place or Place("Tower"), plan, Context())
    assert isinstance(outcome, Written), outcome
    result = apply_edits(text, outcome.edits)
    compile(result.removeprefix("\ufeff"), "tower.py", "exec")
    assert check(result) == []
    assert result.count("import checkpoint\n") <= 1
    assert len(re.findall("(?m)^import torch$", result)) <= 1
    return result


def forward_of(text: str) -> str:
    return textwrap.dedent(text[text.rindex("    def forward") :].partition("\n")[2])


def refused(text: str, plan: Plan = ALL) -> ByHand:
    outcome = write(text, Place("Tower"), plan, Context())
    assert isinstance(outcome, ByHand), outcome
    return outcome


def test_each_block_runs_under_checkpoint_in_training_and_as_before_elsewhere() -> None:
    result = written(tower("for block in self.blocks:\n    x = block(x, mask)  # attend\nreturn x"))
    assert "from torch import nn\nfrom torch.utils.checkpoint import checkpoint\n\n\nclass Block" in result
    assert forward_of(result) == textwrap.dedent(
        """\
        for block in self.blocks:
            if self.training:
                x = checkpoint(block, x, mask, use_reentrant=False)
            else:
                x = block(x, mask)  # attend
        return x
        """
    )


def test_every_nth_block_is_counted_by_enumerate_and_the_number_is_a_setting_of_the_class() -> None:
    result = written(tower("for block in self.blocks:\n    x = block(x, mask=mask)\nreturn x"), EVERY)
    assert "class Tower(nn.Module):\n    checkpoint_every = 2  # " in result
    assert "for i, block in enumerate(self.blocks):" in result
    assert "if self.training and i % self.checkpoint_every == 0:" in result
    assert "checkpoint(block, x, mask=mask, use_reentrant=False)" in result


def test_the_first_blocks_are_counted_by_the_loop_s_own_index() -> None:
    result = written(tower("for n in range(len(self.blocks)):\n    x = self.blocks[n](x)\nreturn x"), FIRST)
    assert "checkpoint_first = 3  # " in result
    assert "if self.training and n < self.checkpoint_first:" in result
    assert "checkpoint(self.blocks[n], x, use_reentrant=False)" in result


def test_lists_side_by_side_are_counted_together() -> None:
    result = written(tower("for block, skip in zip(self.blocks, skips):\n    x = block(x + skip)\nreturn x"), EVERY)
    assert "for i, (block, skip) in enumerate(zip(self.blocks, skips)):" in result


def test_the_first_blocks_of_several_lists_are_counted_through_them() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nfor block in self.more:\n    x = block(x)\nreturn x")
    text = text.replace("depth)])\n", "depth)])\n        self.more = nn.ModuleList([Block(width) for _ in range(4)])\n")
    lists = (Blocks("blocks.*", 4, 4), Blocks("more.*", 1, 4))
    result = written(text, Plan("first-5", lists))
    assert "for block in self.blocks:\n            if self.training:\n" in result
    assert "checkpoint_first = 1  # so many of self.more" in result
    assert "for i, block in enumerate(self.more):\n            if self.training and i < self.checkpoint_first" in result


def test_a_sequence_that_is_called_whole_becomes_a_loop() -> None:
    blocks = "nn.Sequential(*[Block(width) for _ in range(depth)])"
    result = written(tower("y = self.blocks(x)\nreturn y", blocks))
    assert forward_of(result) == textwrap.dedent(
        """\
        y = x
        for block in self.blocks:
            if self.training:
                y = checkpoint(block, y, use_reentrant=False)
            else:
                y = block(y)
        return y
        """
    )


def test_blocks_are_found_through_the_parts_of_a_model() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x")
    text += "\n\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    text += "        self.tower = Tower(64, 4)\n\n    def forward(self, x):\n        return self.tower(x)\n"
    assert "checkpoint(block, x" in written(text, Plan("all", (Blocks("tower.blocks.*", 4, 4),)), Place("Model"))
    assert "checkpoint(block, x" in written(text, Plan("all", (Blocks("tower.blocks.*", 4, 4),)), Place())


def test_the_loop_of_a_base_class_is_the_one_that_is_edited() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x") + "\n\nclass Deep(Tower):\n    pass\n"
    assert "checkpoint(block, x" in written(text, ALL, Place("Deep"))


@pytest.mark.parametrize(
    ("imports", "spelled"),
    [
        ("import torch.utils.checkpoint as cp", "cp.checkpoint(block"),
        ("from torch.utils.checkpoint import checkpoint as ckpt", "ckpt(block"),
        ("from saving import checkpoint", "torch_checkpoint(block"),
        ("checkpoint = load('weights.pt')", "torch_checkpoint(block"),
    ],
)
def test_checkpoint_is_called_as_the_file_calls_it_and_never_what_else_has_its_name(imports: str, spelled: str) -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x")
    assert spelled in written(text.replace("import torch\n", f"import torch\n{imports}\n"))


def test_tabs_line_ends_and_a_byte_order_mark_stay() -> None:
    text = "\ufeff" + tower("for block in self.blocks:\n    x = block(x)\nreturn x").replace("    ", "\t")
    result = written(text.replace("\n", "\r\n"), EVERY)
    assert "\n" not in result.replace("\r\n", "")
    assert result.startswith("\ufeffimport torch\r\n")
    assert "\t\t\tif self.training and i % self.checkpoint_every == 0:\r\n\t\t\t\tx = checkpoint(" in result


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        ("for block in self.blocks:\n    x = block(block(x))\nreturn x", "more than once"),
        ("for block in self.blocks:\n    x, cache = block(x, cache)\nreturn x", "`cache` looks like a cache"),
        ("for block in self.blocks:\n    x = block(x, **extra)\nreturn x", r"unpacked with `\*\*`"),
        ("for block in self.blocks[1:]:\n    x = block(x)\nreturn x", "a part of the blocks"),
        (
            "for i in range(4):\n    block = self.blocks[i]\n    if i:\n        block = self.last\n    x = block(x)",
            "not a block of the list each time",
        ),
        (
            "for block in self.blocks:\n    x = run(block, x)\nreturn x",
            "another class does, or it runs them one by one",
        ),
        ("for block in self.blocks:\n    x = block(x)\n    log(block)\nreturn x", "more with a block than call it"),
        ("for block in self.blocks:\n    x = block(\n        x,  # tokens\n    )\nreturn x", "a comment"),
        ("x = [block(x) for block in self.blocks]\nreturn x", "another class does, or it runs them one by one"),
        ("with torch.no_grad():\n    for block in self.blocks:\n        x = block(x)\nreturn x", "in training"),
    ],
)
def test_where_the_shape_does_not_allow_it_nothing_is_written_and_it_is_said_why(forward: str, why: str) -> None:
    text = tower(forward)
    outcome = refused(text)
    assert re.search(why, outcome.why), outcome.why
    assert "checkpoint(block, x, use_reentrant=False)" in outcome.code


PLAIN = tower("for block in self.blocks:\n    x = block(x, mask)  # attend\nreturn x")
NONE = Plan("none", ALL.blocks)
IMPORTED = "from torch import nn\nfrom torch.utils.checkpoint import checkpoint\n"


def checkpointed(forward: str) -> str:
    return tower(forward).replace("from torch import nn\n", IMPORTED)


def test_each_place_that_changes_is_an_edit_of_its_own_and_the_loop_is_the_last() -> None:
    before = written(PLAIN)
    outcome = write(before, Place("Tower"), SELECTIVE, Context())
    assert isinstance(outcome, Written)
    assert [edit.text.split()[0] for edit in outcome.edits] == ["from", "#", "x"]


@pytest.mark.parametrize("plan", [ALL, EVERY, FIRST])
def test_what_a_plan_wrote_is_taken_out_again_to_the_letter(plan: Plan) -> None:
    assert written(written(PLAIN, plan), NONE) == PLAIN


def test_a_count_that_something_else_asks_for_stays() -> None:
    text = tower("for i, block in enumerate(self.blocks):\n    x = block(x)\n    self.seen = i\nreturn x")
    assert written(written(text), NONE) == text


def test_a_count_that_a_function_inside_the_loop_asks_for_stays() -> None:
    body = "for i, block in enumerate(self.blocks):\n    def name():\n        return i\n    x = block(x)\nreturn x"
    assert written(written(tower(body)), NONE) == tower(body)


@pytest.mark.parametrize("before", [ALL, EVERY, FIRST, SELECTIVE])
@pytest.mark.parametrize("after", [ALL, EVERY, FIRST, SELECTIVE])
def test_one_plan_takes_the_place_of_another(before: Plan, after: Plan) -> None:
    first, again = written(PLAIN, after), written(written(PLAIN, before), after)
    assert again.count("checkpoint(block, x, mask, use_reentrant=False") == 1
    assert again.count("def selective_contexts") == (SELECTIVE in (before, after))
    counted = " in enumerate(self.blocks)"
    if before in (ALL, after) or counted in first:
        assert forward_of(again) == forward_of(first)
    for name in ("checkpoint_every = 2", "checkpoint_first = 3"):
        assert again.count(name) == first.count(name)


def test_a_call_over_several_lines_and_one_under_a_negated_condition_are_taken_out() -> None:
    lines = "for block in self.blocks:\n    x = checkpoint(\n        block, x,\n        debug=True,\n    )\nreturn x"
    assert "        for block in self.blocks:\n            x = block(x)\n" in written(checkpointed(lines), NONE)
    negated = (
        "for i, block in enumerate(self.blocks):\n    if not self.training or i:\n        x = block(x)  # as it is\n"
        "    else:\n        x = checkpoint(block, x, use_reentrant=True)\nreturn x"
    )
    assert "asks `or` whether" in refused(checkpointed(negated), NONE).why
    result = written(checkpointed(negated.replace(" or i", "")), NONE)
    assert "            x = block(x)  # as it is\n        return x\n" in result
    assert "import checkpoint" not in result


FLAGGED = """\
for block in self.blocks:
    if self.use and self.training:
        x = checkpoint(block, x)
    else:
        x = block(x)
return x
"""
LOOP = "for block in self.blocks:\n    x = checkpoint(block, x)\nreturn x\n"


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        (FLAGGED, "asks `self.use` whether to checkpoint: that is the switch to turn"),
        (LOOP.replace("return x", "return checkpoint(self.head, x)"), "checkpoints, too"),
        (LOOP.replace("(block, x)", "(lambda y: block(y), x)"), "not the block itself"),
        (LOOP.replace("(block, x)", "(block, x, **extra)"), "`**`"),
        (LOOP.replace("x = ", "x = x + "), None),
        (FLAGGED.replace("self.use and ", "").replace("    else:\n        x = block(x)\n", ""), "something else"),
        (FLAGGED.replace("self.use and ", "").replace("= block(x)", "= block(x, mask)"), "calls a block otherwise"),
        (LOOP.replace("checkpoint(block, x)", "block(x)"), "No loop over `self.blocks` hands its blocks"),
    ],
)
def test_what_is_not_seen_to_be_right_is_not_taken_out(forward: str, why: str | None) -> None:
    text = checkpointed(forward)
    if why is None:
        assert "x = x + block(x)" in written(text, NONE)
    else:
        assert why in refused(text, NONE).why


def test_a_block_that_draws_numbers_which_are_not_drawn_again_alike_is_left_alone() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x")
    text = text.replace("return x + self", "return x * random.random() + self").replace(
        "import torch\n", "import random\nimport torch\n", 1
    )
    assert "`Block` draws random numbers with `random.random(" in refused(text).why


def test_batch_normalisation_in_a_block_is_a_note() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x")
    text = text.replace("self.attention = ", "self.norm = nn.BatchNorm1d(width)\n        self.attention = ", 1)
    outcome = write(text, Place("Tower"), ALL, Context())
    assert isinstance(outcome, Written)
    assert "updated twice a step" in outcome.notes[0]


def test_what_the_probe_did_not_count_as_blocks_is_not_checkpointed_by_a_loop_over_all() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x")
    assert "holds 6 modules, of which 4 are blocks" in refused(text, Plan("all", (Blocks("blocks.*", 4, 6),))).why


def test_half_typed_code_is_not_edited() -> None:
    assert "does not parse" in refused(tower("for block in self.blocks:\n    x = block(x")).why


def test_a_selective_plan_brings_its_policy_along_above_the_class_and_its_comments() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x")
    result = written(text.replace("class Tower", "# of blocks\n@final\nclass Tower"), SELECTIVE)
    assert "import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts\n" in result
    assert "    torch.ops.aten.addmm.default,\n" in result
    assert "create_selective_checkpoint_contexts(keep_products)\n\n\n# of blocks\n@final\nclass Tower" in result
    assert "x = checkpoint(block, x, use_reentrant=False, context_fn=selective_contexts)" in result


def test_the_policy_has_names_that_nothing_else_has_and_torch_is_imported_for_it() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x").replace(
        "import torch\n", "keep_products = 1\n", 1
    )
    result = written(text, SELECTIVE)
    assert "def keep_products2(ctx, op" in result
    assert "\nimport torch\n" in result
    assert result.index("\nimport torch\n") < result.index("torch.ops.")


def test_a_selective_plan_wants_a_torch_that_has_it_and_is_shown_where_the_loop_does_not_allow_it() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x")
    outcome = write(text, Place("Tower"), SELECTIVE, Context(Versions.parse("torch=2.3.1")))
    assert isinstance(outcome, ByHand)
    assert "torch before 2.4" in outcome.why
    twice = refused(text.replace("x = block(x)", "x = block(block(x))"), SELECTIVE)
    assert "checkpoint(block, x, use_reentrant=False, context_fn=contexts)" in twice.code


TWO = """

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(8) for _ in range(4)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


model = Other()
"""


def test_of_several_classes_with_such_blocks_the_one_that_is_meant_is_edited() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x") + TWO
    line = text[: text.index("model =")].count("\n") + 1
    for place in (Place("model"), Place(None, line), Place(None, line - 4), Place("Other")):
        result = written(text, ALL, place)
        assert result.index("checkpoint(block") > result.index("class Other"), place
    outcome = write(text, Place("build"), ALL, Context())
    assert isinstance(outcome, ByHand)
    assert "several classes of this file" in outcome.why


def test_a_model_with_transformers_own_switch_is_left_to_it() -> None:
    text = tower("for block in self.blocks:\n    x = block(x)\nreturn x")
    text = text.replace("class Tower(nn.Module)", "class Tower(PreTrainedModel)")
    assert "transformers' own switch" in refused(text).why
    assert refused(text).code.startswith("model.gradient_checkpointing_enable(")


def test_a_class_of_another_file_is_named_with_where_it_is() -> None:
    said = "`GPT` of `model` runs `transformer.h.*`: probe that class in its own file, and apply the plan there"
    plan = Plan("all", (Blocks("transformer.h.*", 4, 4),))
    script = "from model import GPT\n\nnet = GPT(8)\n"
    outcome = write(script, Place("net"), plan, Context())
    assert isinstance(outcome, ByHand)
    assert outcome.why == said
    held = (
        "from torch import nn\nfrom model import GPT\n\n\nclass Lit(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.net = GPT(8)\n\n"
        "    def forward(self, x):\n        return self.net(x)\n"
    )
    outcome = write(held, Place("Lit"), Plan("all", (Blocks("net.transformer.h.*", 4, 4),)), Context())
    assert isinstance(outcome, ByHand)
    assert outcome.why == said.replace("transformer.h.*", "net.transformer.h.*")
