"""The page that `remat probe --timeline` writes."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

from remat.probe.messages import Mark, Range, Timeline, VariantResult
from remat.render.probe import Probed
from remat.render.timeline_page import page

GIB = 2**30
RESULT = VariantResult(
    name="all",
    kind="estimated",
    allocated_bytes=10 * GIB,
    reserved_bytes=None,
    process_bytes=None,
    peak_phase="backward",
    phases=(),
    saved_activation_bytes=4 * GIB,
    by_category={},
    by_line=(),
    by_module=(),
    recompute_flops_ratio=Range(1.0, 1.0),
    step_seconds=None,
    checkpointed=(),
    not_checkpointed=(),
    active=False,
    inactive_because=None,
    assumptions=(),
    verified=True,
    timeline=Timeline((), (), (), (), (), 0),
)
TIMELINE = Timeline(
    categories=("parameters", "activations", "context"),
    points=((2 * GIB, 0, 0), (2 * GIB, 4 * GIB, 0), (2 * GIB, 8 * GIB, 0), (2 * GIB, 1 * GIB, 0)),
    events=(0, 3, 6, 9),
    modules=("", "layers.0", "layers.1", ""),
    marks=(Mark(1, "forward"), Mark(2, "backward")),
    peak=2,
)
LOW = replace(TIMELINE, points=tuple((GIB, 0, 0) for _ in TIMELINE.points), peak=0)


def drawn(*timelines: Timeline, name: str = "all") -> list[ET.Element]:
    results = tuple(replace(RESULT, name=name, timeline=timeline) for timeline in timelines)
    charts = re.findall(
        r'<svg class="chart".*?</svg>', page(Probed("net.py:Net", "cuda", None, 1.0, results, ())), re.DOTALL
    )
    return [ET.fromstring(chart) for chart in charts]  # noqa: S314 - our own page


def told(chart: ET.Element) -> list[str | None]:
    return [title.text for title in chart.iter("title")]


def test_each_point_says_what_is_held_in_which_phase_and_module() -> None:
    (chart,) = drawn(TIMELINE)
    assert told(chart) == [
        "2.0 GiB in load\nparameters 2.0 GiB",
        "6.0 GiB in forward, layers.0\nactivations 4.0 GiB\nparameters 2.0 GiB",
        "10.0 GiB in backward, layers.1\nactivations 8.0 GiB\nparameters 2.0 GiB",
        "3.0 GiB in backward\nparameters 2.0 GiB\nactivations 1.0 GiB",
    ]
    assert "peak 10.0 GiB" in [text.text for text in chart.iter("text")]


def test_categories_are_stacked_and_those_that_never_hold_anything_are_not_drawn() -> None:
    (chart,) = drawn(TIMELINE)
    areas = [path.attrib for path in chart.iter("path")]
    assert [area["fill"] for area in areas] == ["url(#fill-parameters)", "url(#fill-activations)"]
    top = [tuple(map(float, corner.split())) for corner in areas[1]["d"].strip("MZ").split("L")][:4]
    assert min(y for _, y in top) == top[2][1] == 20.0  # the peak touches the top of the axis
    assert [x for x, _ in top] == sorted({x for x, _ in top})


def test_variants_share_one_axis_so_that_they_can_be_compared() -> None:
    high, low = drawn(TIMELINE, LOW)
    axis = [[text.text for text in chart.iter("text") if text.get("text-anchor") == "end"][:5] for chart in (high, low)]
    assert axis[0] == axis[1] == ["0", "2.5 GiB", "5.0 GiB", "7.5 GiB", "10.0 GiB"]


def test_the_page_loads_nothing_and_no_name_acts() -> None:
    results = (replace(RESULT, name="<script>x</script>", timeline=TIMELINE), replace(RESULT, name="measured"))
    text = page(Probed('"><img src=x onerror=y>.py:A', "cuda", None, 1.0, results, ()))
    assert not re.search(r"(?i)<(?:script|img|link|iframe)|(?:src|href)=.?(?:http|//)|@import", text)
    assert "&lt;script&gt;x&lt;/script&gt;" in text
    assert "There is no timeline of this one." in text
