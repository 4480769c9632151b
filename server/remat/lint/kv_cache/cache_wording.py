"""What is said about a KV cache under checkpointing: true for the installed version, with the line that it hangs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.lint.kv_cache.cache_settings import deciding_flag
from remat.lint.kv_cache.decoder_checkpointing import Enabling, How
from remat.lint.kv_cache.hugging_face import living_config

if TYPE_CHECKING:
    import libcst as cst

    from remat.lint.code.source import Place, Source
    from remat.lint.kv_cache.cache_settings import CacheSetting
    from remat.lint.kv_cache.model_origins import Model
    from remat.versions import Versions

LOGGED = "`use_cache=True` is incompatible with gradient checkpointing"


def dropped(enabling: Enabling, versions: Versions) -> str:
    """The model turns its cache off by itself."""
    when = "where the flag is set, " if enabling.how is How.FLAG else ""
    version = versions.describe("transformers")
    return (
        f"{when}{_called(enabling.models)} is checkpointed with `use_cache` on: {version} drops the cache in training "
        f'and logs "{LOGGED}" once per run; nothing else is lost, and `use_cache=False` avoids the line'
    )


def taken_care_of(enabling: Enabling, versions: Versions) -> str:
    """A Trainer that is new enough, or of unknown age."""
    return (
        f"{_called(enabling.models)} is checkpointed with `use_cache` on: the Trainer of transformers 5 and later "
        f"turns it off, an older one ({versions.describe('transformers')} is installed) leaves it on"
    )


def whatever_the_flag(source: Source, setting: CacheSetting, versions: Versions) -> str:
    """PEFT's preparation enables checkpointing by its own default, the cache is turned off by a flag."""
    flag, line = "the flag", _line(source, setting.place, setting.node)
    decides = deciding_flag(setting)
    if decides is not None and (span := source.span(setting.place, decides)):
        flag = f"`{source.text[span.start : span.end]}`"
    return (
        f"PEFT's preparation turns checkpointing on whatever {flag} says; where that is off, `use_cache` stays "
        f"on{line} and {versions.describe('transformers')} logs that it drops the cache. Pass the flag as "
        f"`use_gradient_checkpointing`, or turn the cache off in either case"
    )


def without_effect(source: Source, models: tuple[Model, ...], setting: CacheSetting, versions: Versions) -> str:
    """A write to a configuration that the model never reads."""
    cls = models[0].cls
    return (
        f"`config.use_cache = False`{_line(source, setting.place, setting.node)} has no effect on {cls} in "
        f"{versions.describe('transformers')}: the cache stays on. The model reads "
        f"`{living_config(cls, versions)}.use_cache`, or the argument `use_cache=False` of the call"
    )


def written_twice(models: tuple[Model, ...], versions: Versions, *, reentrant: bool) -> str:
    """Layers checkpointed from outside."""
    if reentrant:
        result = "the gradients are wrong, without an error"
    elif versions.at_least("transformers", "5.15"):
        result = "RuntimeError about sizes with a padding mask or eager attention; without a mask it passes by accident"
    else:
        result = "CheckpointError, or RuntimeError about sizes with a padding mask"
    version = versions.describe("transformers")
    return (
        f"the layers of {_called(models)} are checkpointed from outside while its KV cache is on: the recomputation "
        f"writes the cache again ({version}: {result}); pass `use_cache=False` in the training call"
    )


def _called(models: tuple[Model, ...]) -> str:
    name = min(m.cls for m in models)
    return f"a model of {name}" if name.startswith("Auto") else name


def _line(source: Source, place: Place, node: cst.CSTNode) -> str:
    span = source.span(place, node)
    return f" (line {source.text.count(chr(10), 0, span.start) + 1})" if span else ""
