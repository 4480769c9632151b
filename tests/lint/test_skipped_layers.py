"""checkpoint-skips-layers on forms too long, or too many, for the rule's own page."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from remat.lint.check import analyse, check
from remat.lint.rules import checkpoint_skips_layers

if TYPE_CHECKING:
    from remat.finding import Finding

RULE = checkpoint_skips_layers.RULE.name
IMPORTS = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

"""
ATTENTION_LAYER = """
class {name}({base}):
    def __init__(self, width):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, 8)

    def forward(self, x):
        return x + self.self_attn(x, x, x)[0]

"""


def skipped(code: str) -> list[Finding]:
    return [f for f in check(code) if f.rule == RULE]


def lines(code: str) -> list[str]:
    """The text that each finding marks."""
    return [code[f.span.start : f.span.end] for f in skipped(code)]


def layer(name: str, base: str = "nn.Module") -> str:
    return ATTENTION_LAYER.format(name=name, base=base)


def model(*methods: str, init: str = "", name: str = "Model", base: str = "nn.Module") -> str:
    """A model with two stacks of imported blocks and the given methods."""
    start = textwrap.indent(
        "super().__init__()\nself.blocks = nn.ModuleList([Block() for _ in range(9)])\n"
        "self.decoder_blocks = nn.ModuleList([Block() for _ in range(9)])\n" + textwrap.dedent(init),
        " " * 8,
    )
    body = "\n\n".join(textwrap.indent(textwrap.dedent(m).strip(), "    ") for m in methods)
    return f"{IMPORTS}class {name}({base}):\n    def __init__(self):\n{start}\n{body}\n"


def forward(body: str) -> str:
    return model("def forward(self, x):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n    return x")


CHECKPOINTED = "for block in self.blocks:\n    x = checkpoint(block, x, use_reentrant=False)\n"


def test_the_stack_of_another_method_of_the_same_class_is_found() -> None:
    code = model(
        """
        def forward_encoder(self, x):
            if self.grad_ckpt:
                for i in range(len(self.blocks)):
                    x = torch.utils.checkpoint.checkpoint(self.blocks[i], x)
            else:
                for blk in self.blocks:
                    x = blk(x)
            return x
        """,
        """
        def forward_decoder(self, x):
            for blk in self.decoder_blocks:
                x = blk(x)
            return x
        """,
    )
    assert lines(code) == ["for blk in self.decoder_blocks"]
    fix = skipped(code)[0].fix
    assert fix is not None
    assert (
        "            if self.grad_ckpt:\n"
        "                x = torch.utils.checkpoint.checkpoint(blk, x)\n"
        "            else:\n"
        "                x = blk(x)\n"
    ) in fix.apply(code)


def test_the_library_method_is_copied_with_its_condition() -> None:
    code = forward(
        """
        for block in self.blocks:
            if torch.is_grad_enabled() and self.gradient_checkpointing:
                x = self._gradient_checkpointing_func(block, x)
            else:
                x = block(x)
        for block in self.decoder_blocks:
            x = block(x, None)
        """
    )
    assert lines(code) == ["for block in self.decoder_blocks"]
    fix = skipped(code)[0].fix
    assert fix is not None
    assert "x = self._gradient_checkpointing_func(block, x, None)" in fix.apply(code)
    assert skipped(fix.apply(code)) == []


@pytest.mark.parametrize(
    "form",
    [
        "x = checkpoint(block, x, use_reentrant=False)",
        "x = checkpoint(block.forward, x)",
        "x = checkpoint(block.__call__, x)",
        "x = checkpoint(lambda t: block(t), x)",
        "x = checkpoint(create_custom_forward(block), x)",
        "x = checkpoint(functools.partial(block, mask=None), x)",
        "x = torch.utils.checkpoint.checkpoint(block, x)",
        "x = self._gradient_checkpointing_func(block.__call__, x)",
        "x = self._run(block, x)",
        "x = checkpoint(block, x) if self.training else block(x)",
    ],
)
def test_every_spelling_of_checkpointing_counts(form: str) -> None:
    code = model(
        f"""
        def forward(self, x):
            for block in self.blocks:
                {form}
            for block in self.decoder_blocks:
                x = block(x)
            return x
        """,
        """
        def _run(self, layer, *args):
            return checkpoint(layer, *args, use_reentrant=False)
        """,
    )
    assert lines(code) == ["for block in self.decoder_blocks"]


def test_a_closure_made_in_the_loop_counts_as_its_layer() -> None:
    code = forward(
        """
        for block in self.blocks:
            def run(t):
                return block(t, None)
            x = checkpoint(run, x)
        for block in self.decoder_blocks:
            x = block(x)
        """
    )
    assert lines(code) == ["for block in self.decoder_blocks"]


def two_parts(encoder_layer: str, decoder_layer: str, decoder_loop: str) -> str:
    return (
        IMPORTS
        + layer("EncoderLayer", encoder_layer)
        + layer("DecoderLayer", decoder_layer)
        + textwrap.dedent(
            f"""
            class Encoder(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.layers = nn.ModuleList([EncoderLayer(width) for _ in range(6)])

                def forward(self, x):
                    for layer in self.layers:
                        x = layer(x)
                    return x

            class Decoder(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.layers = nn.ModuleList([DecoderLayer(width) for _ in range(6)])

                def forward(self, x):
                    for layer in self.layers:
                        x = {decoder_loop}
                    return x

            class Model(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.encoder = Encoder(width)
                    self.decoder = Decoder(width)
            """
        )
    )


@pytest.mark.parametrize(
    ("base", "loop"), [("nn.Module", "checkpoint(layer, x)"), ("GradientCheckpointingLayer", "layer(x)")]
)
def test_a_part_of_the_model_that_never_checkpoints_is_found_beside_one_that_does(base: str, loop: str) -> None:
    found = skipped(two_parts("nn.Module", base, loop))
    assert [f.message.startswith("`self.layers` of `Encoder`") for f in found] == [True]
    assert found[0].fix is None


def test_parts_that_are_alternatives_do_not_run_beside_each_other() -> None:
    code = two_parts("nn.Module", "nn.Module", "checkpoint(layer, x)")
    code = code.replace("self.encoder = Encoder(width)", "self.part = Encoder(width)")
    assert len(skipped(code)) == 1
    assert skipped(code.replace("self.decoder = Decoder(width)", "self.part = Decoder(width)")) == []


def test_a_part_whose_layers_checkpoint_themselves_is_left_alone() -> None:
    assert skipped(two_parts("GradientCheckpointingLayer", "GradientCheckpointingLayer", "layer(x)")) == []
    assert skipped(two_parts("ImportedLayer", "nn.Module", "checkpoint(layer, x)")) == []


def test_a_part_that_is_checkpointed_as_a_whole_is_left_alone() -> None:
    code = two_parts("nn.Module", "nn.Module", "checkpoint(layer, x)")
    assert skipped(code + "\n    def forward(self, x):\n        return checkpoint(self.encoder, x)\n") == []


@pytest.mark.parametrize(
    ("why", "body"),
    [
        ("early return", "if self.ckpt:\n    " + CHECKPOINTED.replace("\n", "\n    ") + "return x\n"),
        ("no gradient", CHECKPOINTED + "with torch.no_grad():\n  "),
        ("not in training", CHECKPOINTED + "if not self.training:\n  "),
        ("a flag of its own", CHECKPOINTED + "if not self.checkpoint_decoder:\n  "),
    ],
)
def test_a_loop_that_does_not_run_beside_the_checkpointed_one_in_training_is_left_alone(why: str, body: str) -> None:
    plain = "for block in self.decoder_blocks:\n    x = block(x)"
    start, _, indent = body.rpartition("\n")
    assert skipped(forward(start + "\n" + textwrap.indent(plain, indent))) == []


@pytest.mark.parametrize(
    "rest",
    [
        "for block, proj in zip(self.decoder_blocks, self.projections):\n    x = checkpoint(block, proj(x))",
        "for block in self.decoder_blocks:\n    x = run_layer(block, x)",
        "for block in self.decoder_blocks:\n    x = block(x, use_checkpoint=self.use_checkpoint)",
        "for block in self.decoder_blocks:\n    x = block.attention(x)",
        "for block in self.decoder_blocks[: self.depth]:\n    x = deepspeed.checkpointing.checkpoint(block, x)",
        "for chunk in x.split(128):\n    x = self.head(chunk)",
        "x = checkpoint_sequential(self.decoder_blocks, 3, x)",
    ],
)
def test_what_cannot_be_told_apart_is_left_alone(rest: str) -> None:
    assert skipped(forward(CHECKPOINTED + rest)) == []


def loop(head: str, condition: str, before: str = "") -> str:
    return forward(
        f"{before}\nfor {head}:\n    if {condition}:\n        x = checkpoint(block, x, use_reentrant=False)\n"
        "    else:\n        x = block(x)\n"
    )


@pytest.mark.parametrize(
    ("condition", "severity", "before"),
    [
        ("i % 2 == 0", "warning", ""),
        ("i % 2", "warning", ""),
        ("i & 1", "warning", ""),
        ("not i % 3", "warning", ""),
        ("self.training and (i % 2 == 1)", "warning", ""),
        ("i < 6", "warning", ""),
        ("i in (0, 2, 4)", "warning", ""),
        ("i >= len(self.blocks) // 2", "warning", ""),
        ("i == len(self.blocks) - 1", "warning", ""),
        ("i > 0", "info", ""),
        ("i != 0", "info", ""),
        ("use", "warning", "half = len(self.blocks) // 2"),
    ],
)
def test_positions_that_the_code_picks_itself_are_found(condition: str, severity: str, before: str) -> None:
    code = loop("i, block in enumerate(self.blocks)", condition, before)
    code = code.replace("    if use:", "    use = self.training and i < half\n            if use:")
    assert lines(code) == ["for i, block in enumerate(self.blocks)"]
    assert skipped(code)[0].severity.value == severity


@pytest.mark.parametrize(
    "condition",
    [
        "self.use_checkpoint",
        "i % self.every == 0",
        "i < self.config.checkpoint_layers",
        "i in self.checkpointed_layers",
        "i < len(self.blocks) * self.ratio",
        "i < N_CHECKPOINTED",
        "self.should_checkpoint(i)",
        "i < len(self.blocks) - 1",
        "i != len(self.blocks) - 1",
        "i % 2 == 0 or self.checkpoint_all",
        "i >= 0",
        "isinstance(block, Heavy)",
    ],
)
def test_configured_policies_and_all_but_the_last_are_left_alone(condition: str) -> None:
    assert skipped(loop("i, block in enumerate(self.blocks)", condition)) == []


def test_removing_the_condition_checkpoints_every_layer() -> None:
    code = loop("i, block in enumerate(self.blocks)", "self.training and (i % 2 == 0) and x.requires_grad")
    fix = skipped(code)[0].fix
    assert fix is not None
    assert "if self.training and x.requires_grad:" in fix.apply(code)
    assert skipped(fix.apply(code)) == []


def test_no_fix_where_the_condition_names_the_layers_left_out() -> None:
    code = forward(
        """
        for i, block in enumerate(self.blocks):
            if i % 2:
                x = block(x)
            else:
                x = checkpoint(block, x)
        """
    )
    assert [f.fix for f in skipped(code)] == [None]


def test_no_fix_where_keywords_would_reach_the_reentrant_variant() -> None:
    code = forward(
        "for block in self.blocks:\n    x = checkpoint(block, x)\n"
        "for block in self.decoder_blocks:\n    x = block(x, mask=None)"
    )
    assert [f.fix for f in skipped(code)] == [None]


FLAGGED = (
    IMPORTS
    + layer("Layer")
    + """
class Base(nn.Module):
    supports_gradient_checkpointing = True

class Model(Base):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([Layer(width) for _ in range(6)])
        self.gradient_checkpointing = False

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
)


def test_a_declared_flag_that_nothing_reads_is_found() -> None:
    assert lines(FLAGGED) == ["for layer in self.layers"]
    assert "`self.gradient_checkpointing`" in skipped(FLAGGED)[0].message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("supports_gradient_checkpointing = True", "supports_gradient_checkpointing = False"),
        ("    supports_gradient_checkpointing = True", "    pass"),
        ("x = layer(x)", "x = run(layer, x, use_gradient_checkpointing=True)"),
        ("class Layer(nn.Module)", "class Layer(GradientCheckpointingLayer)"),
        ("class Layer(nn.Module)", "class Layer(ImportedLayer)"),
        ("        return x\n", "        return x\n\n    def on(self):\n        return self.gradient_checkpointing\n"),
        ("x + self.self_attn(x, x, x)[0]", "checkpoint(self.self_attn, x, x, x)[0]"),
        ("Layer(width) for", "nn.Linear(width, width) for"),
    ],
)
def test_a_flag_that_somebody_reads_or_nobody_promises_is_left_alone(old: str, new: str) -> None:
    assert old in FLAGGED
    assert skipped(FLAGGED.replace(old, new)) == []


def test_an_argument_that_is_passed_on_is_read() -> None:
    code = (
        IMPORTS
        + layer("Layer")
        + """
class Model(nn.Module):
    def __init__(self, width, use_checkpoint=False):
        super().__init__()
        self.use_checkpoint = use_checkpoint
        self.layers = nn.ModuleList([Layer(width) for _ in range(6)])
        self.rest = Rest(width, use_checkpoint=use_checkpoint)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.rest(x)
"""
    )
    assert skipped(code) == []
    assert lines(code.replace("use_checkpoint=use_checkpoint)", "deep=True)")) == ["for layer in self.layers"]


CHECK_FN = (
    "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing\n"
    + IMPORTS
    + layer("EncoderBlock")
    + layer("DecoderBlock")
    + """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.ModuleList([EncoderBlock(width) for _ in range(6)])
        self.decoder = nn.ModuleList([DecoderBlock(width) for _ in range(6)])

"""
)


@pytest.mark.parametrize(
    ("code", "fixed"),
    [
        (
            "apply_activation_checkpointing(m, check_fn=lambda s: isinstance(s, EncoderBlock))",
            "isinstance(s, (EncoderBlock, DecoderBlock))",
        ),
        (
            (
                "def blocks(s):\n    return isinstance(s, (EncoderBlock, Other))\n\n"
                "apply_activation_checkpointing(m, check_fn=blocks)"
            ),
            "isinstance(s, (EncoderBlock, Other, DecoderBlock))",
        ),
    ],
)
def test_a_check_fn_that_misses_a_block_type_is_found_and_completed(code: str, fixed: str) -> None:
    assert lines(CHECK_FN + code) == ["apply_activation_checkpointing"]
    fix = skipped(CHECK_FN + code)[0].fix
    assert fix is not None
    assert fixed in fix.apply(CHECK_FN + code)
    assert skipped(fix.apply(CHECK_FN + code)) == []


@pytest.mark.parametrize(
    "code",
    [
        "apply_activation_checkpointing(m, check_fn=lambda s: isinstance(s, (EncoderBlock, DecoderBlock)))",
        "apply_activation_checkpointing(m, check_fn=lambda s: isinstance(s, nn.Module))",
        "apply_activation_checkpointing(m, check_fn=make(EncoderBlock))",
        "apply_activation_checkpointing(m, check_fn=lambda s: isinstance(s, EncoderBlock) or s in more)",
        "\n".join(
            f"apply_activation_checkpointing(m, check_fn=lambda s: isinstance(s, {name}))"
            for name in ("EncoderBlock", "DecoderBlock")
        ),
    ],
)
def test_a_check_fn_that_names_every_block_or_decides_otherwise_is_left_alone(code: str) -> None:
    assert skipped(CHECK_FN + code) == []


def test_a_list_built_before_it_becomes_a_module_list_is_followed() -> None:
    listed = "self.decoder_blocks = nn.ModuleList([Block() for _ in range(9)])"
    built = "blocks = []\n        for _ in range(9):\n            blocks.append(Block())\n        "
    code = forward(CHECKPOINTED + "for block in self.decoder_blocks:\n    x = block(x)")
    assert listed in code
    code = code.replace(listed, built + "self.decoder_blocks = nn.ModuleList(blocks)")
    assert lines(code) == ["for block in self.decoder_blocks"]


def test_a_class_that_another_one_checkpoints_as_a_whole_is_left_alone() -> None:
    around = """
class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Model(8)

    def forward(self, x):
        return {run}
"""
    assert lines(FLAGGED + around.format(run="self.part(x)")) == ["for layer in self.layers"]
    assert skipped(FLAGGED + around.format(run="checkpoint(self.part, x)")) == []
    assert skipped(FLAGGED + around.format(run="self._gradient_checkpointing_func(self.part, x)")) == []


def test_torch_layers_count_as_blocks_and_linear_layers_do_not() -> None:
    def code(plain: str) -> str:
        return (
            IMPORTS
            + layer("Block")
            + textwrap.dedent(
                f"""
            class Model(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.blocks = nn.ModuleList([Block(width) for _ in range(9)])
                    self.rest = nn.ModuleList([{plain} for _ in range(9)])

                def forward(self, x):
                    for block in self.blocks:
                        x = checkpoint(block, x)
                    for part in self.rest:
                        x = part(x)
                    return x
            """
            )
        )

    assert lines(code("nn.TransformerEncoderLayer(width, 8)")) == ["for part in self.rest"]
    assert lines(code("nn.Linear(width, width)")) == []
    assert lines(code("ImportedBlock(width)")) == []


def test_no_absence_is_claimed_while_a_statement_does_not_parse() -> None:
    code = forward(CHECKPOINTED + "for block in self.decoder_blocks:\n    x = block(x)")
    assert lines(code) == ["for block in self.decoder_blocks"]
    assert lines(code + "\nx = (1,, 2)\n") == ["for block in self.decoder_blocks"], "it holds no word of interest"
    assert lines(code + "\nx = checkpoint(model.decoder_blocks[0],, x)\n") == []


def test_no_fix_where_a_comment_ends_the_arguments() -> None:
    code = forward(CHECKPOINTED + "for block in self.decoder_blocks:\n    x = block(\n        x,  # states\n    )")
    assert [f.fix for f in skipped(code)] == [None]


def test_the_rest_of_a_list_kept_under_a_local_name_is_found() -> None:
    code = forward(
        "blocks = self.blocks\nfor block in blocks:\n    x = checkpoint(block, x)\n"
        "others = self.decoder_blocks\nfor block in others:\n    x = block(x)"
    )
    assert lines(code) == ["for block in others"]


def test_a_layer_dropped_at_random_still_runs_bare() -> None:
    code = forward(
        CHECKPOINTED + "for block in self.decoder_blocks:\n    if self.training and torch.rand(()) < self.layerdrop:\n"
        "        y = (None, None)\n    else:\n        x = block(x)"
    )
    assert lines(code) == ["for block in self.decoder_blocks"]


def test_findings_follow_an_edit_elsewhere_in_the_class() -> None:
    before = forward(CHECKPOINTED + "for block in self.decoder_blocks:\n    x = block(x)")
    first = analyse(before)
    after = before.replace("super().__init__()", "super().__init__()\n        self.more = 1")
    second = analyse(after, before=first)
    assert second is not None
    assert [f for f in second.findings if f.rule == RULE] == skipped(after) != []


def test_a_stack_that_an_edit_checkpoints_is_no_longer_found() -> None:
    before = forward(CHECKPOINTED + "for block in self.decoder_blocks:\n    x = block(x)")
    first = analyse(before)
    second = analyse(before.replace("x = block(x)", "x = checkpoint(block, x)"), before=first)
    assert second is not None
    assert [f for f in second.findings if f.rule == RULE] == []


@pytest.mark.parametrize(
    "freeze",
    [
        "self.vision.requires_grad_(False)",
        "for p in self.vision.parameters():\n            p.requires_grad = False",
    ],
)
def test_frozen_layers_beside_checkpointed_ones_are_left_alone(freeze: str) -> None:
    text = f"""
from torch import nn
from torch.utils.checkpoint import checkpoint

class Block(nn.Module):
    def forward(self, x):
        return x.relu()

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = nn.ModuleList([Block() for _ in range(4)])
        self.text = nn.ModuleList([Block() for _ in range(4)])
        {freeze}

    def forward(self, v, t):
        for layer in self.vision:
            v = layer(v)
        for layer in self.text:
            t = checkpoint(layer, t, use_reentrant=False)
        return v, t
"""
    rule = "checkpoint-skips-layers"
    assert [f for f in check(text) if f.rule == rule] == []
    assert [f.rule for f in check(text.replace(freeze, "self.frozen = None")) if f.rule == rule] == [rule]
