"""Which captured names are late, where an example would be too long: flow of control, scopes, fixes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import libcst as cst
import pytest

from remat.lint.check import check
from remat.lint.closures.captures import free_reads

if TYPE_CHECKING:
    from remat.finding import Finding

RULE = "closure-captures-loop-variable"
IMPORTS = """\
import functools
from functools import partial
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
"""


def found(code: str) -> list[Finding]:
    text = IMPORTS + textwrap.dedent(code)
    compile(text, "case.py", "exec")
    return [f for f in check(text) if f.rule == RULE]


def fixed(code: str) -> str:
    text = IMPORTS + textwrap.dedent(code)
    findings = found(code)
    assert len(findings) == 1
    fix = findings[0].fix
    assert fix is not None
    after = fix.apply(text)
    compile(after, "fixed.py", "exec")
    assert [f for f in check(after) if f.rule == RULE] == []
    return after.removeprefix(IMPORTS)


LATE = {
    "walrus in the test of a while": """
        def f(layers, x):
            while (layer := next(layers, None)) is not None:
                x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
            return x
    """,
    "list of lambdas run by a loop": """
        def f(layers, x):
            runs = [lambda h: layer(h) for layer in layers]
            for run in runs:
                x = checkpoint(run, x, use_reentrant=False)
            return x
    """,
    "list of lambdas that a loop has filled": """
        def f(layers, x):
            runs = []
            for layer in layers:
                runs.append(lambda h: layer(h))
            for i, run in enumerate(runs):
                x = checkpoint(run, x, use_reentrant=False)
            return x
    """,
    "one of a list of lambdas": """
        def f(layers, x):
            runs = [lambda h: layer(h) for layer in layers]
            return checkpoint(runs[0], x, use_reentrant=False)
    """,
    "while loop with an index": """
        def f(layers, x):
            i = 0
            while i < len(layers):
                x = checkpoint(lambda h: layers[i](h), x, use_reentrant=False)
                i += 1
            return x
    """,
    "one level further in": """
        def f(layers, x):
            for stage in layers:
                for block in stage:
                    x = checkpoint(lambda h, block=block: block(h, stage), x, use_reentrant=False)
            return x
    """,
    "under an if in the loop": """
        def f(layers, x, on):
            for layer in layers:
                if on:
                    x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
                else:
                    x = layer(x)
            return x
    """,
    "the loop goes on after a condition": """
        def f(layers, x):
            for i, layer in enumerate(layers):
                x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
                if i == 3:
                    break
            return x
    """,
    "a second loop binds the name after the first is left": """
        def f(layers, more, x):
            for layer in layers:
                x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
                break
            for layer in more:
                x = layer(x)
            return x
    """,
    "partial of a lambda": """
        def f(layers, x):
            for layer in layers:
                x = checkpoint(partial(lambda scale, h: layer(h) * scale, 2.0), x, use_reentrant=False)
            return x
    """,
    "list comprehension": """
        def f(layers, x):
            return sum([checkpoint(lambda h: layer(h), x, use_reentrant=False) for layer in layers])
    """,
    "generator": """
        def f(layers, x):
            return sum(checkpoint(lambda h: layer(h), x, use_reentrant=False) for layer in layers)
    """,
    "nested function around the call": """
        def f(layers, x):
            for layer in layers:
                def once(h):
                    return checkpoint(lambda h: layer(h), h, use_reentrant=False)
                x = once(x)
            return x
    """,
    "through another local function": """
        def f(layers, x):
            for layer in layers:
                def run(h):
                    return layer(h)
                x = checkpoint(lambda h: run(h), x, use_reentrant=False)
            return x
    """,
    "list filled in a loop": """
        def f(layers, x):
            functions = []
            for layer in layers:
                functions.append(lambda h: layer(h))
            return checkpoint_sequential(functions, 2, x, use_reentrant=False)
    """,
    "module level": """
        for layer in layers:
            x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
        x.sum().backward()
    """,
    "outer loop runs backward, the inner one does not": """
        for batch in loader:
            x = batch
            for layer in layers:
                x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
            x.sum().backward()
    """,
    "tensor doubled each turn": """
        def f(layers, x):
            scale = torch.ones(8)
            for layer in layers:
                x = checkpoint(lambda h, layer=layer: layer(h * scale), x, use_reentrant=False)
                scale = scale * 2
            return x
    """,
    "noise drawn each turn": """
        def f(layers, x):
            for layer in layers:
                noise = torch.randn_like(x)
                x = checkpoint(lambda h, layer=layer: layer(h * noise), x, use_reentrant=False)
            return x
    """,
    "own result under another name of the target": """
        def f(block, x, y):
            x, y = checkpoint(lambda: block(x, y), use_reentrant=False)
            return x
    """,
    "keyword function": """
        def f(layers, x):
            for layer in layers:
                x = checkpoint(function=lambda: layer(3), use_reentrant=False)
            return x
    """,
    "the carried result is looked at in between": """
        def f(self, x):
            for i, layer in enumerate(self.layers):
                x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
                if self.nan_debug:
                    self._check_nan(x, i)
            return x
    """,
    "try around the call": """
        def f(layers, x):
            for layer in layers:
                try:
                    x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
                except RuntimeError:
                    continue
            return x
    """,
    "attribute assigned in the loop": """
        def f(self, x):
            for layer in self.layers:
                self.current = layer
                x = checkpoint(lambda h: self.current(h), x, use_reentrant=False)
            return x
    """,
    "residual of a reentrant checkpoint": """
        def f(layers, x):
            for layer in layers:
                x = checkpoint(lambda h, layer=layer: layer(h) + x, x, use_reentrant=True)
            return x
    """,
    "addition inside": """
        def f(layers, x):
            for layer in layers:
                x = checkpoint(lambda h, layer=layer: layer(h + x), x, use_reentrant=False)
            return x
    """,
    "curried and called at once": """
        def f(layers, x):
            for layer in layers:
                x = checkpoint(use_reentrant=False)(lambda h: layer(h))(x)
            return x
    """,
    "curried under a name": """
        def f(layers, x):
            for layer in layers:
                run = checkpoint(use_reentrant=False)(lambda h: layer(h))
                x = run(x)
            return x
    """,
}
RIGHT = {
    "walrus that binds another name": """
        def f(layer, queue, x):
            while (item := next(queue, None)) is not None:
                x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
            return x
    """,
    "list of lambdas that bind early": """
        def f(layers, x):
            runs = [lambda h, layer=layer: layer(h) for layer in layers]
            for run in runs:
                x = checkpoint(run, x, use_reentrant=False)
            return x
    """,
    "list of other functions": """
        def f(layers, x):
            runs = [layer.forward for layer in layers]
            for run in runs:
                x = checkpoint(run, x, use_reentrant=False)
            return x
    """,
    "return right after": """
        def f(layers, x):
            for layer in layers:
                return checkpoint(lambda h: layer(h), x, use_reentrant=False)
    """,
    "backward through the accelerator": """
        for batch in loader:
            loss = checkpoint(lambda t: model(t) * batch.sum(), batch, use_reentrant=False)
            accelerator.backward(loss)
    """,
    "backward every few steps": """
        for i, batch in enumerate(loader):
            loss = checkpoint(lambda t: model(t) * batch.sum(), batch, use_reentrant=False)
            if i % 4 == 0:
                loss.backward()
    """,
    "the result goes to something that may run backward": """
        def train(loader, model, update):
            for batch in loader:
                loss = checkpoint(lambda t: model(t) * batch.sum(), batch, use_reentrant=False)
                update(loss)
    """,
    "the result is yielded": """
        def losses(loader, model):
            for batch in loader:
                yield checkpoint(lambda t: model(t) * batch.sum(), batch, use_reentrant=False)
    """,
    "autograd.grad in the loop": """
        for batch in loader:
            loss = checkpoint(lambda t: model(t) * batch.sum(), batch, use_reentrant=False).sum()
            grads = torch.autograd.grad(loss, params)
    """,
    "gradients are off": """
        def f(layers, x):
            with torch.no_grad():
                for layer in layers:
                    x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
            return x
    """,
    "gradients are off for the function": """
        @torch.no_grad()
        def f(layers, x):
            for layer in layers:
                x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
            return x
    """,
    "parameter of the same name": """
        def f(layers, x):
            for layer in layers:
                x = checkpoint(lambda layer, h: layer(h), layer, x, use_reentrant=False)
            return x
    """,
    "bound inside": """
        def f(layers, x):
            for layer in layers:
                x = checkpoint(lambda h: sum(layer(h) for layer in layers), x, use_reentrant=False)
            return x
    """,
    "one module for every turn": """
        def f(block, x):
            for layer in [block] * 6:
                x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
            return x
    """,
    "assigned the same in every turn": """
        def f(layers, x, mask):
            for layer in layers:
                bias = mask.to(x.dtype)
                x = checkpoint(lambda h, layer=layer: layer(h, bias), x, use_reentrant=False)
            return x
    """,
    "made once": """
        def f(layers, x, mask=None):
            for layer in layers:
                if mask is None:
                    mask = torch.ones(x.shape)
                x = checkpoint(lambda h, layer=layer: layer(h, mask), x, use_reentrant=False)
            return x
    """,
    "only its shape is read": """
        def f(layers, x):
            for layer in layers:
                x = checkpoint(lambda h, layer=layer: layer(h, x.shape[1], len(x)), x, use_reentrant=False)
            return x
    """,
    "bound before, not after": """
        def f(block, x, mask):
            mask = mask.float()
            mask = mask * 2
            return checkpoint(lambda h: block(h, mask), x, use_reentrant=False)
    """,
    "bound in the other branch": """
        def f(block, x, mask, on):
            if on:
                x = checkpoint(lambda h: block(h, mask), x, use_reentrant=False)
            else:
                mask = mask * 2
                x = block(x, mask)
            return x
    """,
    "bound in the other branch, in a loop": """
        def f(layers, x, mask, on):
            for i, layer in enumerate(layers):
                if on:
                    x = checkpoint(lambda h, layer=layer: layer(h, mask), x, use_reentrant=False)
                else:
                    mask = layer.mask(i)
                    x = layer(x, mask)
            return x
    """,
    "bound after backward": """
        def step(block, x, mask):
            loss = checkpoint(lambda h: block(h, mask), x, use_reentrant=False)
            loss.sum().backward()
            mask = mask * 2
            return mask
    """,
    "kept as it is": """
        def f(block, x, mask):
            x = checkpoint(lambda h: block(h, mask), x, use_reentrant=False)
            mask = mask.contiguous()
            return x, mask
    """,
    "another function's name": """
        def f(block, x, mask):
            x = checkpoint(lambda h: block(h, mask), x, use_reentrant=False)
            def g():
                mask = 3
                return mask
            return x, [mask for mask in x]
    """,
    "local function with a with_cp switch": """
        def forward(self, x):
            identity = x

            def _inner_forward(x):
                out = self.norm1(self.conv1(x))
                return self.conv2(out) + identity

            if self.with_cp and x.requires_grad:
                out = checkpoint(_inner_forward, x)
            else:
                out = _inner_forward(x)
            out = self.relu(out)
            return out
    """,
    "only to name a profiler range": """
        def f(layers, x):
            for i, layer in enumerate(layers):
                def run(h, layer=layer):
                    with torch.profiler.record_function(f"layer {i}"):
                        return layer(h)
                x = checkpoint(run, x, use_reentrant=False)
            return x
    """,
    "a Python number scales the result": """
        def f(layers, x):
            for i, layer in enumerate(layers):
                x = checkpoint(lambda h, layer=layer: layer(h) / (i + 1), x, use_reentrant=False)
            return x
    """,
    "comprehension over bound lambdas": """
        def f(layers, x):
            return checkpoint_sequential([lambda h, m=m: m(h) for m in layers], 2, x, use_reentrant=False)
    """,
    "lambda handed elsewhere": """
        def f(layers, x):
            for layer in layers:
                layer.hook = lambda h: layer(h)
                x = checkpoint(layer, x, use_reentrant=False)
            return x
    """,
    "another library's checkpoint": """
        from manager import checkpoint as save

        def f(layers, x):
            for layer in layers:
                x = save(lambda h: layer(h), x)
            return x
    """,
}


@pytest.mark.parametrize("code", LATE.values(), ids=LATE)
def test_a_name_bound_anew_before_backward_is_found(code: str) -> None:
    assert len(found(code)) == 1


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_left_alone(code: str) -> None:
    assert found(code) == []


@pytest.mark.parametrize(
    ("parameters", "bound"),
    [
        ("", " layer=layer"),
        (" ", " layer=layer"),
        (" y", " y, layer=layer"),
        (" y, ", " y, layer=layer"),
        (" y, z=(1)", " y, z=(1), layer=layer"),
        (" *args", " *args, layer=layer"),
        (" y, *, z=2", " y, *, z=2, layer=layer"),
        (" *args, z=2, **rest", " *args, z=2, layer=layer, **rest"),
        (" **rest", " layer=layer, **rest"),
        (" y, /", " y, /, layer=layer"),
        (" y, z={'a': (1, 2)}", " y, z={'a': (1, 2)}, layer=layer"),
    ],
)
def test_the_fix_adds_a_default_that_no_argument_of_checkpoint_reaches(parameters: str, bound: str) -> None:
    body = (
        "def f(layers, x):\n    for layer in layers:\n        x = checkpoint(lambda{}: layer(0), use_reentrant=False)\n"
    )
    assert fixed(body.format(parameters)) == body.format(bound)


@pytest.mark.parametrize(
    ("head", "bound"),
    [
        ("def run():", "def run(layer=layer):"),
        ("def run( ):", "def run( layer=layer):"),
        ("def run(h):", "def run(h, layer=layer):"),
        ("def run(h: list[int] = [0], ) -> int:", "def run(h: list[int] = [0], layer=layer) -> int:"),
        ("def run(h, *rest: int):", "def run(h, *rest: int, layer=layer):"),
        ("def run(\n            h,\n        ):", "def run(\n            h,\n            layer=layer,\n        ):"),
        (
            "def run(\n            h,  # hidden (b, t)\n            z=1  # last\n        ):",
            "def run(\n            h,  # hidden (b, t)\n            z=1,  # last\n            layer=layer\n        ):",
        ),
    ],
)
def test_the_fix_of_a_def_keeps_its_layout(head: str, bound: str) -> None:
    body = (
        "def f(layers, x):\n    for layer in layers:\n        {}\n            return layer(0)\n"
        "        x = checkpoint(run, x, use_reentrant=False)\n"
    )
    assert fixed(body.format(head)) == body.format(bound)
    assert fixed(body.format(head).replace("\n", "\r\n")) == body.format(bound).replace("\n", "\r\n")


def test_several_late_names_are_bound_by_one_fix() -> None:
    code = """
    def f(layers, masks, x):
        for layer, mask in zip(layers, masks):
            x = checkpoint(lambda h: layer(h, mask), x, use_reentrant=False)
        return x
    """
    assert "lambda h, layer=layer, mask=mask: layer(h, mask)" in fixed(code)
    assert found(code)[0].message.startswith("the lambda captures `layer` and `mask`, which the loop in line 8 binds")


def test_an_attribute_is_bound_under_its_last_name_and_read_by_it() -> None:
    code = """
    def f(self, x):
        for self.layer in self.layers:
            x = checkpoint(lambda h: self.layer.mlp(self.layer(h)) + self.bias, x, use_reentrant=False)
        return x
    """
    assert "lambda h, layer=self.layer: layer.mlp(layer(h)) + self.bias" in fixed(code)


def safe(code: str) -> bool | None:
    (finding,) = found(code)
    return finding.fix.safe if finding.fix else None


def test_a_local_function_that_is_only_called_and_checkpointed_is_bound_safely() -> None:
    assert safe("""
    def f(layers, x, on):
        for layer in layers:
            def run(h):
                return layer(h)
            if on:
                x = checkpoint(run, x, use_reentrant=False)
            else:
                x = run(x)
        return x
    """)


def test_a_local_function_that_is_kept_elsewhere_is_offered_for_review() -> None:
    assert safe("""
    def f(layers, x, kept):
        for layer in layers:
            run = lambda h: layer(h)
            kept.append(run)
            x = checkpoint(run, x, use_reentrant=False)
        return x
    """) is False  # fmt: skip


def test_a_local_function_called_with_the_new_value_on_purpose_is_offered_for_review() -> None:
    assert safe("""
    def f(block, x, mask):
        run = lambda h: block(h, mask)
        x = checkpoint(run, x, use_reentrant=False)
        mask = mask * 2
        return run(x)
    """) is False  # fmt: skip


def test_no_fix_is_offered_where_the_name_is_bound_between_the_closure_and_its_call() -> None:
    assert safe("""
    def f(layers, x):
        for i in range(3):
            run = lambda h: layers[j](h)
            j = i + 1
            x = checkpoint(run, x, use_reentrant=False)
        return x
    """) is None  # fmt: skip


def test_no_fix_is_offered_where_the_value_hides_in_another_local_function() -> None:
    assert safe(LATE["through another local function"]) is None


def test_reads_are_found_through_every_construct_that_binds_names() -> None:
    function = cst.parse_module(
        "def f(p, *args, k=default, **kw) -> note:\n"
        "    local = a\n    b.c.d = e\n    g[h] = 1\n    i += 1\n"
        "    for j in l: m(j, kw, args, p)\n"
        "    with n as o, q: o()\n"
        "    [r for r in s if t(r)]\n    {u: v for u, v in w for _ in u}\n"
        "    lambda z, y=aa: z + y + ab\n"
        "    def inner(ac=ad): return ac + ae + local\n"
        "    class K(af): ag = ah; ai = ag\n"
        "    if (aj := ak): aj\n"
        "    try: al()\n    except am as an: an()\n"
        "    import ao; ao.ap\n"
        "    f'{aq!r:{ar}}'\n"
        "    at(au=av)\n"
        "    match aw:\n        case {'k': ax, **ay}: ax, ay\n        case az.ba(bb=1): pass\n"
    ).body[0]
    assert isinstance(function, cst.FunctionDef)
    names = " ".join(sorted({".".join(read.path) for read in free_reads(function)}))
    assert names == "a aa ab ad ae af ah ak al am aq ar at av aw az.ba b.c e g h l m n q s t w"


def test_names_declared_nonlocal_are_read_from_around() -> None:
    function = cst.parse_module("def f():\n    nonlocal n\n    n += 1\n    return n\n").body[0]
    assert isinstance(function, cst.FunctionDef)
    assert {read.path for read in free_reads(function)} == {("n",)}


@pytest.mark.parametrize(
    "text",
    [
        # `prev` is not bound in the first turn: its default would be evaluated there
        (
            "for i, layer in enumerate(layers):\n"
            "    x = checkpoint(lambda h, layer=layer, i=i: h if i == 0 else layer(h) * prev, x)\n"
            "    prev = layer.bias\n"
        ),
        (
            "for layer in layers:\n"
            "    if layer.has_gate:\n"
            "        gate = layer.gate\n"
            "    x = checkpoint(lambda h, layer=layer: layer(h) * gate if layer.has_gate else h, x)\n"
        ),
        (
            "for layer in layers:\n"
            "    if use_pos:\n"
            "        pos = layer(x)\n"
            "    def run(h, layer=layer):\n"
            "        return layer(h * pos) if use_pos else layer(h)\n"
            "    x = checkpoint(run, x, use_reentrant=False)\n"
        ),
    ],
)
def test_no_fix_evaluates_early_what_is_not_bound_on_every_way(text: str) -> None:
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    found = check(
        f"from torch.utils.checkpoint import checkpoint\ndef f(x, layers, use_pos):\n{indented}    return x\n"
    )
    assert [f.fix for f in found if f.rule == "closure-captures-loop-variable"] == [None]


@pytest.mark.parametrize(("switch", "reported"), [("True", True), ("False", False)])
def test_gradients_that_are_switched_on_do_not_silence_a_finding(switch: str, *, reported: bool) -> None:
    text = (
        "import torch\nfrom torch.utils.checkpoint import checkpoint\ndef f(x, layers):\n"
        f"    with torch.set_grad_enabled({switch}):\n        for layer in layers:\n"
        "            x = checkpoint(lambda h: layer(h), x, use_reentrant=False)\n    return x\n"
    )
    assert bool(check(text)) is reported
