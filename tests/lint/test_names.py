"""What a called name means: every spelling of an import, and every binding that hides it."""

from __future__ import annotations

import pytest

from remat.lint.code.definitions import definitions
from remat.lint.code.names import PARTIAL, UNKNOWN
from remat.lint.code.source import Source
from remat.lint.code.syntax import dotted

CHECKPOINT = "torch.utils.checkpoint.checkpoint"
FROM = "from torch.utils.checkpoint import checkpoint\n"


def meaning(text: str, called: str = "here") -> set[str]:
    """What `here(…)` in the text may call; the only call of that name."""
    source = Source(text)
    (found,) = (
        (node, scope, place)
        for place in source.places
        for calls in [place.parsed.nodes]
        for node, scope in next((v for k, v in calls.items() if k.__name__ == "Call"), [])
        if dotted(node.func)[-1:] == [called]
    )
    node, scope, place = found
    return set(source.meanings(node.func, scope, place))


@pytest.mark.parametrize(
    "text",
    [
        "from torch.utils.checkpoint import checkpoint as here\nhere()",
        "import torch.utils.checkpoint as c\nhere = c.checkpoint\nhere()",
        "from torch.utils import checkpoint\nhere = checkpoint.checkpoint\nhere()",
        "import torch.utils.checkpoint\nhere = torch.utils.checkpoint.checkpoint\nhere()",
        "import torch\nhere = torch.utils.checkpoint.checkpoint\nhere()",
        "from torch import utils as u\na = u.checkpoint\nhere = a.checkpoint\nhere()",
        f"{FROM}here: object = checkpoint\nhere()",
        f"{FROM}here = other = checkpoint\nhere()",
        f"{FROM}if (here := checkpoint):\n    here()",
        f"{FROM}def f():\n    here = checkpoint\n    def g():\n        return here()\n",
        f"def f():\n    {FROM}    here = checkpoint\n    return here()\n",
        f"class A:\n    {FROM}    here = checkpoint\n    here()\n",
        f"{FROM}class A:\n    def f(self):\n        self.here()\n    def g(self):\n        self.here = checkpoint",
        f"def f():\n    global here\n    here = 1\n{FROM}here = checkpoint\nhere()",
    ],
)
def test_every_spelling_of_the_function_is_recognised(text: str) -> None:
    assert meaning(text) == {CHECKPOINT}


def test_a_star_import_brings_the_two_functions() -> None:
    assert meaning("from torch.utils.checkpoint import *\ncheckpoint()", "checkpoint") == {CHECKPOINT}


@pytest.mark.parametrize(
    "text",
    [
        f"try:\n    {FROM}    here = checkpoint\nexcept ImportError:\n    from lib import here\nhere()",
        f"from lib import x\n{FROM}here = checkpoint if x else x\nhere()".replace("import x", "import here as x"),
        f"from lib import here as x\n{FROM}here = x or checkpoint\nhere()",
        f"from lib import here\n{FROM}if a:\n    here = checkpoint\nhere()",
    ],
)
def test_a_name_that_may_be_two_things_means_both(text: str) -> None:
    assert meaning(text) == {CHECKPOINT, "lib.here"}


@pytest.mark.parametrize(
    "text",
    [
        f"{FROM}here = checkpoint\nhere = make()\nhere()",
        f"{FROM}here = checkpoint\ndef here(): pass\nhere()",
        f"{FROM}here = checkpoint\nfor here in a:\n    here()",
        f"{FROM}here = checkpoint\nwith a as here:\n    here()",
        f"{FROM}here, b = checkpoint, 1\nhere = checkpoint\nhere()",
    ],
)
def test_a_name_that_is_bound_to_something_unknown_too_says_so(text: str) -> None:
    assert meaning(text) == {CHECKPOINT, UNKNOWN}


@pytest.mark.parametrize(
    "text",
    [
        f"{FROM}here = checkpoint\ndef f(here):\n    here()",
        f"{FROM}here = checkpoint\ndef f(*here):\n    here()",
        f"{FROM}here = checkpoint\nf = lambda here: here()",
        f"{FROM}here = checkpoint\ndef f():\n    here = make()\n    here()",
        f"{FROM}class A:\n    here = checkpoint\n    def f(self):\n        here()\n",
        f"{FROM}class A:\n    here = checkpoint\nclass B:\n    def f(self):\n        self.here()\n",
        f"def f():\n    {FROM}    here = checkpoint\nhere()",
        "from lib import checkpoint as c\nhere = c.checkpoint.checkpoint\nhere()",
        "from .torch.utils.checkpoint import checkpoint as here\nhere()",
    ],
)
def test_a_name_of_its_own_hides_the_import(text: str) -> None:
    assert CHECKPOINT not in meaning(text)


def test_a_partial_is_a_partial_of_what_it_is_given() -> None:
    for make in ("functools.partial", "partial"):
        text = f"import functools\nfrom functools import partial\n{FROM}here = {make}(checkpoint, a=1)\nhere()"
        assert meaning(text) == {PARTIAL + CHECKPOINT}


def test_names_are_followed_through_a_chain_and_never_in_a_circle() -> None:
    assert meaning(f"{FROM}a = checkpoint\nb = a\nhere = b\nhere()") == {CHECKPOINT}
    assert CHECKPOINT not in meaning("a = here\nhere = a\nhere()")
    assert meaning(f"{FROM}here = checkpoint\n" + "here = here\n" * 200 + "here()") >= {CHECKPOINT, UNKNOWN}


def test_what_a_class_binds_is_known_in_every_piece_of_a_long_class() -> None:
    filler = "".join(f"    def f{n}(self):\n        return {n} * self.width\n\n" for n in range(60))
    init = "    def __init__(self):\n        self.again = checkpoint\n\n"
    text = f"{FROM}class A:\n{filler}    def f(self):\n        return self.again()\n\n{init}"
    assert len(Source(text).pieces) > 60
    assert meaning(text, "again") == {CHECKPOINT}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a = 1\nhere(a)", 1),
        ("a = 1\na = 2\nhere(a)", 2),
        ("def a(): pass\nhere(a)", 1),
        ("class a: pass\nhere(a)", 1),
        ("def f(a):\n    here(a)", 0),
        ("a = 1\nfor a in b: pass\nhere(a)", 0),
        ("a = 1\ndef f():\n    a = 2\n    here(a)", 1),
        ("class K:\n    def __init__(self):\n        self.a = 1\n    def f(self):\n        here(self.a)\n", 1),
        ("class K:\n    def a(self): pass\n    def f(self):\n        here(self.a)\n", 1),
        ("here(a)", 0),
    ],
)
def test_the_values_of_a_name_are_given_only_where_all_are_seen(text: str, values: int) -> None:
    source = Source(text)
    for place in source.places:
        for kind, nodes in place.parsed.nodes.items():
            for node, scope in nodes if kind.__name__ == "Call" else ():
                if dotted(node.func) == ["here"]:
                    assert len(definitions(source, node.args[0].value, scope, place)) == values
