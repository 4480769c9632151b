"""Models of Hugging Face's libraries, made from a config.json on this machine: no weights, no network."""

from __future__ import annotations

import importlib
import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from remat.probe.batch.hugging_face_inputs import assumptions, make_batch
from remat.probe.batch.losses import loss_of
from remat.probe.batch.shapes import dtype_of_floats
from remat.probe.built import Built, FactMissingError
from remat.probe.libraries import without_adapters
from remat.probe.messages import Location
from remat.probe.target.building import building
from remat.probe.target.made import Made, built_from
from remat.probe.target.spec import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import nn

    from remat.probe.built import Inputs
    from remat.probe.target.calls import Callee


def built(name: str, folder: Path) -> Built:
    """What `hf:NAME` means: a folder with a config.json, or a name in the local cache."""
    place = config_folder(name, folder)
    config = json.loads((place / "config.json").read_text("utf-8"))
    if "_diffusers_version" in config:
        return built_from(Made(partial(_of_diffusers, config), None, NOTHING, Location(str(place / "config.json"), 1)))
    said: list[str] = []

    def batch(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        base = without_adapters(model)
        said[:] = [f"parameters are {dtype_of_floats(base)}", *assumptions(base, size, seq)]
        return make_batch(base, size, seq)

    return Built(
        make_model=building()(partial(_of_transformers, str(place))),
        make_batch=batch,
        make_loss=loss_of,
        notes=lambda: tuple(said),
    )


def from_name(
    cls: type, name: str, config: object, settings: Mapping[str, object], dtype: object, attention: str | None
) -> nn.Module:
    """Answer `cls.from_pretrained(name, **settings)` without the weights; `settings` are the config's own."""
    import transformers  # noqa: PLC0415  (a second, and only some models need it)

    if config is None or isinstance(config, str):
        place = config_folder(config or name, Path.cwd())
        config = transformers.AutoConfig.from_pretrained(str(place), local_files_only=True)
    forwarded = {key: value for key, value in settings.items() if not hasattr(config, key)}
    for key in settings.keys() - forwarded.keys():
        setattr(config, key, settings[key])
    given = {"attn_implementation": attention} if attention else {}
    chosen = {"dtype" if _major(transformers) >= 5 else "torch_dtype": _dtype(dtype, config)}
    make = cast("Callee[nn.Module]", getattr(cls, "from_config", None) or getattr(cls, "_from_config"))  # noqa: B009
    return make(config, **given, **chosen, **forwarded)


def config_of(name: str, folder: Path) -> dict[str, object]:
    return cast("dict[str, object]", json.loads((config_folder(name, folder) / "config.json").read_text("utf-8")))


def config_folder(name: str, folder: Path) -> Path:
    """Return the folder that holds the config.json of `name`: itself, or a snapshot in the local cache."""
    own = Path(name).expanduser()
    own = own if own.is_absolute() else folder / own
    if own.name == "config.json" and own.is_file():
        return own.parent
    if (own / "config.json").is_file():
        return own
    if own.is_dir():
        raise FactMissingError(f"no config.json in {own}", "give a folder that holds the model's config.json")
    for snapshot in _snapshots(name):
        if (snapshot / "config.json").is_file():
            return snapshot
    raise FactMissingError(
        f"no config.json for {name} in the local cache ({_cache()})",
        f"give a folder: hf:FOLDER, or download the file once: hf download {name} config.json",
    )


def _snapshots(name: str) -> Iterator[Path]:
    owner, _, rest = name.partition("/")
    repository, _, below = rest.partition("/")
    folder = _cache() / ("models--" + "--".join(filter(None, (owner, repository))))
    revision = folder / "refs" / "main"
    if revision.is_file():
        yield folder / "snapshots" / revision.read_text("utf-8").strip() / below
    for snapshot in sorted(folder.glob("snapshots/*"), key=lambda path: path.stat().st_mtime, reverse=True):
        yield snapshot / below


def _cache() -> Path:
    for name, below in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser() / below
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "huggingface" / "hub"


def _of_transformers(place: str) -> nn.Module:
    import transformers  # noqa: PLC0415

    raw = json.loads((Path(place) / "config.json").read_text("utf-8"))
    if "auto_map" in raw and not _known_type(raw.get("model_type"), transformers):
        raise FactMissingError(
            f"{place} brings its own code (auto_map in config.json), which isn't executed",
            "point at the class itself: modeling_….py:ClassName",
            Location(f"{place}/config.json", 1),
        )
    config = transformers.AutoConfig.from_pretrained(place, local_files_only=True)
    _any_tokens(config)
    names = [name for name in getattr(config, "architectures", None) or () if hasattr(transformers, name)]
    cls = getattr(transformers, names[0]) if names else _automatic(config, transformers)
    return from_name(cls, place, config, {}, None, None)


def _any_tokens(config: object) -> None:
    """Name tokens that forward insists on where the configuration leaves them open: any will do, they have no size."""
    shifted = ("decoder_start_token_id", "pad_token_id") if getattr(config, "is_encoder_decoder", False) else ()
    for name in (*shifted, *(n for n in ("image_token_id", "image_token_index") if hasattr(config, n))):
        if getattr(config, name, None) is None:
            setattr(config, name, 0)


def _automatic(config: object, transformers: object) -> type:
    for name in ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModel"):
        cls = getattr(transformers, name)
        if type(config) in cls._model_mapping:
            return cast("type", cls)
    raise FactMissingError(
        f"no model class is known for {type(config).__name__}", 'name it in config.json: "architectures"'
    )


def _known_type(model_type: object, transformers: object) -> bool:
    return model_type in getattr(transformers, "CONFIG_MAPPING", {})


def _of_diffusers(config: dict[str, object]) -> nn.Module:
    try:
        diffusers = importlib.import_module("diffusers")
    except ImportError as error:
        raise FactMissingError(
            "this config.json is for diffusers, which isn't installed", "pip install diffusers"
        ) from error
    cls = getattr(diffusers, str(config.get("_class_name")), None)
    if cls is None:
        raise FactMissingError(f"diffusers has no class {config.get('_class_name')}", "install the version that has it")
    return cast("nn.Module", cls.from_config(config))


def _dtype(given: object, config: object) -> torch.dtype:
    """As from_pretrained chooses: what is given, else from transformers 5 on what config.json says, else fp32."""
    import transformers  # noqa: PLC0415

    if isinstance(given, str) and given != "auto":
        given = getattr(torch, given)
    if isinstance(given, torch.dtype):
        return given
    text = getattr(config, "text_config", None)
    own = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or getattr(text, "dtype", None)
    if own is not None and (given == "auto" or _major(transformers) >= 5):
        return cast("torch.dtype", getattr(torch, own) if isinstance(own, str) else own)
    return torch.get_default_dtype()


def _major(library: object) -> int:
    return int(str(getattr(library, "__version__", "0")).split(".")[0])
