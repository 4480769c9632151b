"""The edits that turn the KV cache off: in the one training call in sight, else by a write to the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Fix
from remat.lint.code.syntax import is_literal
from remat.lint.edits import add_argument, indent_at, insert, newline_of, replace
from remat.lint.kv_cache.hugging_face import config_write_works, living_config, takes_use_cache

if TYPE_CHECKING:
    from remat.lint.code.source import Call, Source
    from remat.lint.kv_cache.cache_settings import CacheSetting
    from remat.lint.kv_cache.model_origins import Model
    from remat.versions import Versions


def in_the_call(source: Source, calls: list[Call], models: tuple[Model, ...]) -> Fix | None:
    """`use_cache=False` in the forward call of a training loop, where that is one call whose arguments can be seen."""
    if len(calls) != 1 or calls[0].unpacks_mapping:
        return None
    said = calls[0].keyword("use_cache")
    if said is None:
        edits = add_argument(source, calls[0], "use_cache=False")
    else:
        edits = replace(source, calls[0].place, said.value, "False")
    remote = any((a := m.call.keyword("trust_remote_code")) and not is_literal(a.value, "False") for m in models)
    hidden = any(m.call.unpacks_mapping for m in models)
    safe = takes_use_cache({m.cls for m in models}, remote_code=remote or hidden) and not _reads_cache(source)
    return Fix("Pass `use_cache=False` in the training call", edits, safe) if edits else None


def _reads_cache(source: Source) -> bool:
    return "past_key_values" in source.words or ".cache" in source.words


def in_the_load(source: Source, models: tuple[Model, ...], versions: Versions) -> Fix | None:
    """`use_cache=True` of the one `from_pretrained` as `use_cache=False`: the file's own form."""
    said = models[0].call.keyword("use_cache") if len(models) == 1 else None
    if said is None or not is_literal(said.value, "True") or not config_write_works({models[0].cls}, versions):
        return None
    edits = replace(source, models[0].call.place, said.value, "False")
    return Fix("Load the model with `use_cache=False`", edits) if edits else None


def on_the_config(
    source: Source, at: Call, name: str | None, models: tuple[Model, ...], versions: Versions, *, before: bool
) -> Fix | None:
    """A line `model.config.use_cache = False` after the statement of `at`, or before it."""
    paths = {living_config(m.cls, versions) for m in models}
    known = len(paths) == 1 and (None not in paths or config_write_works({m.cls for m in models}, versions))
    edit = line_beside(source, at, f"{name}.{paths.pop() or 'config'}.use_cache = False", before=before)
    return Fix("Turn the cache off in the model's configuration", (edit,)) if name and known and edit else None


def line_beside(source: Source, at: Call, text: str, *, before: bool) -> Edit | None:
    """`text` as a line after the statement of `at`, or before it; None where that holds more than one."""
    above = at.place.parsed.ancestors(at.node)
    line = next((a for a in above if isinstance(a, cst.SimpleStatementLine | cst.SimpleStatementSuite)), None)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    span = source.span(at.place, line.body[0])
    if span is None:
        return None
    indent, newline = indent_at(source.text, span.start), newline_of(source.text, span.start)
    if before:
        return insert(span.start, f"{text}{newline}{indent}")
    end = source.text.find("\n", span.end)
    end = len(source.text) if end < 0 else end - (newline == "\r\n")
    return insert(end, f"{newline}{indent}{text}")


def where_it_lives(
    source: Source, written: list[CacheSetting], models: tuple[Model, ...], versions: Versions
) -> Fix | None:
    """Each write to a configuration that the model never reads, moved to the one it does read."""
    paths = {living_config(m.cls, versions) for m in models}
    path = paths.pop() if len(paths) == 1 else None
    edits: list[Edit] = []
    for setting in written:
        target = setting.node.targets[0].target if isinstance(setting.node, cst.Assign) else None
        config = target.value if isinstance(target, cst.Attribute) else None
        holder = config.value if isinstance(config, cst.Attribute) else None
        if path is None or config is None or holder is None:
            return None
        span = source.span(setting.place, holder)
        whole = source.span(setting.place, config)
        if span is None or whole is None:
            return None
        edits.append(Edit(whole, f"{source.text[span.start : span.end]}.{path}"))
    return Fix("Write `use_cache` where the model reads it", tuple(edits)) if edits else None
