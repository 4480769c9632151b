"""Where the rules about `use_reentrant` stay silent or careful: guards, patched files, hooks, what is not in sight."""

from __future__ import annotations

import pytest

from remat.lint.check import check
from remat.lint.project import Project, summarise
from remat.lint.rule import Context
from remat.versions import Versions

IMPORTS = (
    "import functools, inspect\nimport torch\nfrom torch import nn\nfrom packaging import version\n"
    "import torch.utils.checkpoint as cp\nfrom torch.utils.checkpoint import checkpoint\n"
)
ADAPTERS = Context(
    project=Project(
        (
            summarise("ds.json", '{"zero_optimization": {"stage": 3}}'),
            summarise("lora.py", "from peft import LoraConfig\n"),
        )
    )
)


@pytest.mark.parametrize(
    "text",
    [
        (
            'def f(b, x):\n    if version.parse(torch.__version__) >= version.parse("1.11"):\n'
            "        return checkpoint(b, x, use_reentrant=False)\n    return checkpoint(b, x)\n"
        ),
        (
            'OLD = version.parse(torch.__version__) < version.parse("1.11")\ndef f(b, x):\n    if OLD:\n'
            "        return checkpoint(b, x)\n    return checkpoint(b, x, use_reentrant=False)\n"
        ),
        (
            'HAS = "use_reentrant" in inspect.signature(checkpoint).parameters\ndef f(b, x):\n    if HAS:\n'
            "        return checkpoint(b, x, use_reentrant=False)\n    return checkpoint(b, x)\n"
        ),
        (
            "cp.checkpoint = functools.partial(cp.checkpoint, use_reentrant=False)\n"
            "def f(b, x):\n    return torch.utils.checkpoint.checkpoint(b, x)\n"
        ),
    ],
)
def test_a_guarded_call_and_a_patched_file_are_left_alone(text: str) -> None:
    assert check(IMPORTS + text) == []


@pytest.mark.parametrize(
    "text",
    [
        (
            "class B(nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
            "b = B()\nb.register_forward_hook(print)\ny = checkpoint(b, x)\n"
        ),
        "@scaled\ndef b(x):\n    return x.relu()\ny = checkpoint(b, x)\n",
        "@torch.compile\ndef b(x):\n    return x.relu()\ny = checkpoint(b, x)\n",
        (
            "from mylib import Base\nclass B(Base):\n    def forward(self, x):\n        return x.relu()\n"
            "b = B()\ny = checkpoint(b, x)\n"
        ),
        (
            "class B(nn.Module):\n    def __call__(self, x):\n        return odd(x)\n"
            "    def forward(self, x):\n        return x.relu()\nb = B()\ny = checkpoint(b, x)\n"
        ),
        (
            "class M(nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
            "m = M()\ny = checkpoint(m, x)\nm = nn.SyncBatchNorm.convert_sync_batchnorm(m)\n"
        ),
        (
            "from mylib import convert\nclass M(nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
            "model = M()\nmodel = convert(model, bits=4)\ny = checkpoint(model, x)\n"
        ),
        (
            "from mylib import quantize\nclass M(nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
            "m = M()\nm2 = quantize(M())\ny = checkpoint(m, x)\n"
        ),
    ],
)
def test_a_fix_is_for_review_where_more_than_the_forward_in_sight_may_run(text: str) -> None:
    (found,) = check(IMPORTS + text)
    assert found.fix is not None
    assert not found.fix.safe


def test_what_is_seen_whole_is_repaired_without_review() -> None:
    text = "class B(nn.Module):\n    def forward(self, x):\n        return x.relu()\nb = B()\ny = checkpoint(b, x)\n"
    (found,) = check(IMPORTS + text)
    assert found.fix is not None
    assert found.fix.safe


def test_a_list_that_is_built_before_it_is_kept_is_seen_whole() -> None:
    text = (
        "class B(nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        blocks = [B() for _ in range(4)]\n        self.blocks = nn.ModuleList(blocks)\n"
        "    def forward(self, x):\n        for block in self.blocks:\n            x = checkpoint(block, x)\n"
        "        return x\n"
    )
    (found,) = check(IMPORTS + text)
    assert found.fix is not None
    assert found.fix.safe
    (unseen,) = check(IMPORTS + text.replace("[B() for _ in range(4)]", "make_blocks()"))
    assert unseen.fix is not None
    assert not unseen.fix.safe


@pytest.mark.parametrize(
    "text",
    [
        "OPTS = {'preserve_rng_state': False}\ny = checkpoint(f, x, **OPTS)\n",
        "y = checkpoint(f, x, **dict(debug=True))\n",
        "class M:\n    run = staticmethod(checkpoint)\n    def forward(self, x):\n        return self.run(self.b, x)\n",
        "import importlib\nm = importlib.import_module('torch.utils.checkpoint')\ny = m.checkpoint(f, x)\n",
    ],
)
def test_checkpoint_is_recognised_behind_a_dict_in_sight_a_static_method_and_an_import_by_name(text: str) -> None:
    assert [f.rule for f in check(IMPORTS + text)] == ["checkpoint-without-use-reentrant"]


@pytest.mark.parametrize(
    "text",
    [
        "OPTS = {'preserve_rng_state': False}\nOPTS['use_reentrant'] = False\ny = checkpoint(f, x, **OPTS)\n",
        "OPTS = {'preserve_rng_state': False}\nsettle(OPTS)\ny = checkpoint(f, x, **OPTS)\n",
        "y = checkpoint(f, x, **{'use_reentrant': False})\n",
        "y = checkpoint(f, x, **{name: False})\n",
        (
            "class M:\n    run = staticmethod(functools.partial(checkpoint, use_reentrant=False))\n"
            "    def forward(self, x):\n        return self.run(self.b, x)\n"
        ),
        "class M:\n    run = checkpoint\n    def forward(self, x):\n        return self.run(self.b, x)\n",
        "import importlib\nm = importlib.import_module(NAME)\ny = m.checkpoint(f, x)\n",
        "import importlib\nm = importlib.import_module('.checkpoint', 'torch.utils')\ny = m.checkpoint(f, x)\n",
    ],
)
def test_what_may_say_the_variant_or_be_something_else_is_left_alone(text: str) -> None:
    assert check(IMPORTS + text) == []


def test_under_peft_and_zero3_nothing_advises_the_variant_that_fails_there() -> None:
    keyword = "def b(x, mask=None):\n    return x\ny = checkpoint(b, x, mask=m)\nz = checkpoint(b, x)\n"
    found = check(IMPORTS + keyword, ADAPTERS)
    assert [f.fix for f in found] == [None] * 3
    assert all("say `use_reentrant=False`" not in f.message for f in found)


def test_torch_before_1_11_is_not_given_a_keyword_that_it_does_not_take() -> None:
    (found,) = check(IMPORTS + "y = checkpoint(b, x)\n", Context(Versions.parse("torch=1.10.0")))
    assert found.fix is None


def test_keeping_torch_s_function_in_an_attribute_is_not_replacing_it() -> None:
    text = (
        "class M:\n    def __init__(self):\n        self.run = checkpoint\n        self.checkpoint = checkpoint\n"
        "    def forward(self, x):\n        return self.run(self.block, self.checkpoint(self.block, x))\n"
        "y = checkpoint(f, x)\n"
    )
    assert [f.rule for f in check(IMPORTS + text)] == ["checkpoint-without-use-reentrant"] * 3
