"""`remat probe --timeline`: what is alive when, drawn on a page that needs nothing but a browser."""

from __future__ import annotations

import html
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from remat.render.sizes import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.probe.messages import Timeline, VariantResult
    from remat.render.probe import Probed

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 1000, 320, 76, 20, 34
_TICKS = 4
_FILLS = {  # a colour that colour-blind people tell apart, and a pattern for those who see none
    "parameters": ("#4477aa", ""),
    "gradients": ("#66ccee", "M-2 2L2-2M0 8L8 0M6 10L10 6"),
    "optimizer": ("#aa3377", "M0 2H8M0 6H8"),
    "activations": ("#228833", "M2 2h1.6M6 6h1.6"),
    "recomputed": ("#ccbb44", "M0 0L8 8M8 0L0 8"),
    "temporaries": ("#ee6677", "M-2 6L2 10M0 0L8 8M6-2L10 2"),
    "inputs": ("#bbbbbb", "M2 0V8M6 0V8"),
    "buffers": ("#7f8fa6", "M0 4H8M4 0V8"),
}
_OTHER = ("#999999", "M0 4L2 2L4 4L6 6L8 4")
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --page: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --page: #0d1117; } }
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
svg.chart { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--soft); } svg .grid { stroke: var(--line); }
svg .peak { stroke: var(--ink); stroke-dasharray: 4 3; }
svg .over { fill: transparent; } svg .over:hover { fill: var(--ink); fill-opacity: .15; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding: 0; list-style: none; }
.legend svg { width: 1rem; height: 1rem; vertical-align: -.15rem; margin-right: .35rem; }
p { color: var(--soft); } strong { color: var(--ink); }
"""


def page(probed: Probed) -> str:
    """The whole page. Nothing on it is loaded from elsewhere, and no text of the user's acts."""
    title = html.escape(f"Memory of {probed.target}")
    versions = probed.environment.versions if probed.environment else {}
    torch = f", torch {html.escape(versions['torch'])}" if "torch" in versions else ""
    highest = max((sum(point) for result in probed.variants for point in result.timeline.points), default=0) or 1
    said = f"Two training steps, for {html.escape(probed.device)}{torch}. Left to right: the order of allocations."
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head><body>',
        f"<h1>{title}</h1><p>{said}</p>",
        *(part for result in probed.variants for part in _variant(result, highest)),
        _patterns(),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _variant(result: VariantResult, highest: int) -> Iterator[str]:
    yield f"<h2>{html.escape(result.name)}, {html.escape(result.kind)}</h2>"
    reserved = f", {size(result.reserved_bytes)} reserved" if result.reserved_bytes is not None else ""
    yield (
        f"<p><strong>{size(result.allocated_bytes)}</strong> allocated{reserved} at the peak, in "
        f"{html.escape(result.peak_phase)}; {size(result.saved_activation_bytes)} of activations saved for "
        "backward.</p>"
    )
    if not result.timeline.points:
        yield "<p>There is no timeline of this one.</p>"
        return
    yield _chart(result.timeline, highest, result.name)
    yield _legend(result.timeline)


def _legend(timeline: Timeline) -> str:
    at_peak = timeline.points[timeline.peak]
    rows = "".join(
        f'<li><svg viewBox="0 0 16 16" aria-hidden="true"><rect width="16" height="16" fill="url(#{_fill(name)})"/>'
        f"</svg>{html.escape(name)} {size(held)}</li>"
        for name, held in zip(timeline.categories, at_peak, strict=True)
        if held
    )
    return f'<p>At the peak:</p><ul class="legend">{rows}</ul>'


def _chart(timeline: Timeline, highest: int, name: str) -> str:
    """`highest`: bytes at the top of the axis, the same for all variants, so that they can be compared."""
    label = html.escape(f"Memory of {name} by category", quote=True)
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        + "".join([*_grid(highest), *_areas(timeline, highest), *_marks(timeline), *_strips(timeline)])
        + "</svg>"
    )


def _x(index: float, count: int) -> float:
    return round(_LEFT + (_WIDTH - _LEFT) * index / max(1, count - 1), 1)


def _y(held: float, highest: int) -> float:
    return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - held / highest), 1)


def _grid(highest: int) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        held = highest * tick / _TICKS
        y = _y(held, highest)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{size(held) if tick else 0}</text>'


def _areas(timeline: Timeline, highest: int) -> Iterator[str]:
    """One area above the other, the categories that never hold anything left out."""
    count = len(timeline.points)
    edges = [(0, *accumulate(point)) for point in timeline.points]
    for layer, name in enumerate(timeline.categories):
        if not any(point[layer] for point in timeline.points):
            continue
        top = [f"{_x(at, count)} {_y(edge[layer + 1], highest)}" for at, edge in enumerate(edges)]
        bottom = [f"{_x(at, count)} {_y(edge[layer], highest)}" for at, edge in reversed([*enumerate(edges)])]
        yield f'<path fill="url(#{_fill(name)})" d="M{"L".join([*top, *bottom])}Z"/>'


def _marks(timeline: Timeline) -> Iterator[str]:
    count = len(timeline.points)
    starts = [(mark.point, mark.phase) for mark in timeline.marks]
    for (start, phase), (end, _) in pairwise([*starts, (count - 1, "")]):
        x, room = _x(start, count), _x(end, count) - _x(start, count)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM + 6}"/>'
        if room > 7 * len(phase):
            yield f'<text x="{x + 3}" y="{_HEIGHT - 12}">{html.escape(phase)}</text>'
    x = _x(timeline.peak, count)
    yield f'<line class="peak" x1="{x}" x2="{x}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
    anchor = "end" if timeline.peak > count / 2 else "start"
    yield f'<text x="{x}" y="{_TOP - 6}" text-anchor="{anchor}">peak {size(sum(timeline.points[timeline.peak]))}</text>'


def _strips(timeline: Timeline) -> Iterator[str]:
    """What a pointer on the chart is told."""
    count = len(timeline.points)
    wide = (_WIDTH - _LEFT) / max(1, count - 1)
    phases = {mark.point: mark.phase for mark in timeline.marks}
    phase = "load"
    for at, (point, module) in enumerate(zip(timeline.points, timeline.modules, strict=True)):
        phase = phases.get(at, phase)
        told = html.escape(_told(timeline.categories, point, phase, module))
        x = round(_x(at, count) - wide / 2, 1)
        yield (
            f'<rect class="over" x="{x}" y="{_TOP}" width="{wide:.1f}" height="{_HEIGHT - _TOP - _BOTTOM}">'
            f"<title>{told}</title></rect>"
        )


def _told(categories: Sequence[str], point: Sequence[int], phase: str, module: str) -> str:
    held = sorted(zip(categories, point, strict=True), key=lambda item: -item[1])
    rows = [f"{size(sum(point))} in {phase}{f', {module}' if module else ''}"]
    return "\n".join([*rows, *(f"{name} {size(value)}" for name, value in held if value)])


def _fill(category: str) -> str:
    return f"fill-{category if category in _FILLS else 'other'}"


def _patterns() -> str:
    made = "".join(
        f'<pattern id="fill-{name}" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" '
        f'fill="{colour}"/><path d="{path}" stroke="#00000066" fill="none"/></pattern>'
        for name, (colour, path) in {**_FILLS, "other": _OTHER}.items()
    )
    return f'<svg width="0" height="0" aria-hidden="true"><defs>{made}</defs></svg>'
