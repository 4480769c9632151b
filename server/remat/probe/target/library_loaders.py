"""Answers libraries' own loaders of weights, once each library is imported."""

from __future__ import annotations

import os
import sys
from functools import reduce
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, cast

from remat.probe.built import FactMissingError
from remat.probe.guards import user_location
from remat.probe.target.absent_tokenizers import tiktoken_or_not
from remat.probe.target.asides import note
from remat.probe.target.no_weights import loaded_or_not

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from types import ModuleType

    from torch import nn

    from remat.probe.target.calls import Callee


class NotOnThisMachineError(FactMissingError, OSError):
    """A file of the Hub that was never downloaded; an OSError too, which libraries expect where they can do without."""


def answer_loaders() -> None:
    """Change the libraries that are imported, and from here on each right after it is."""
    for name, change in _WHEN_IMPORTED.items():
        if name in sys.modules:
            change(sys.modules[name])
    sys.meta_path.insert(0, _NotedImports())


def _without_hub(module: ModuleType) -> None:
    """transformers.modeling_utils"""
    _set(module, "PreTrainedModel.from_pretrained", classmethod(_hugging_face))


def _configs_without_hub(module: ModuleType) -> None:
    """transformers.configuration_utils"""
    kind = getattr(module, "PreTrainedConfig", None) or module.PretrainedConfig
    load = cast("Callee[object]", kind.get_config_dict)

    def get_config_dict(_cls: type, /, name: object = None, *args: object, **kwargs: object) -> object:
        try:
            return load(name, *args, **kwargs)
        except OSError as error:
            how = f"download it once: hf download {name} config.json"
            place = user_location(sys._getframe(1))
            raise NotOnThisMachineError(f"config.json of {name}, which is not on this machine", how, place) from error

    kind.get_config_dict = classmethod(get_config_dict)


def _auto_without_hub(module: ModuleType) -> None:
    """transformers.models.auto.auto_factory"""
    _set(module, "_BaseAutoModelClass.from_pretrained", classmethod(_hugging_face))


def _diffusers_without_hub(module: ModuleType) -> None:
    _set(module, "ModelMixin.from_pretrained", classmethod(_diffusers))


def _timm_without_hub(module: ModuleType) -> None:
    _set(module, "load_pretrained", lambda *_args, **_kwargs: note("pretrained weights of timm are left out"))


def _hub_without_weights(module: ModuleType) -> None:
    _set(module, "hf_hub_download", _or_not_there(cast("Callee[object]", module.hf_hub_download)))


def _safetensors_or_not(module: ModuleType) -> None:
    _set(module, "load_file", loaded_or_not(cast("Callee[object]", module.load_file)))


def _boxes_at_once(module: ModuleType) -> None:
    """torchvision.ops.boxes: on a GPU, boxes of all classes are thinned out at once; on the CPU, a class at a time."""
    if hasattr(module, "_batched_nms_coordinate_trick"):
        _set(module, "_batched_nms_vanilla", module._batched_nms_coordinate_trick)


def _any_docstring(module: ModuleType) -> None:
    """transformers.utils.doc: its decorators write docstrings, and take other arguments in each version."""
    for name in ("add_code_sample_docstrings", "add_start_docstrings", "add_start_docstrings_to_model_forward"):
        if hasattr(module, name):
            _set(module, name, _documented_or_not(cast("Callee[Callee[object]]", getattr(module, name))))


def _documented_or_not(decorator: Callee[Callee[object]]) -> Callee[object]:
    def documented(*args: object, **kwargs: object) -> object:
        try:
            write = decorator(*args, **kwargs)
        except TypeError:
            return lambda function: function

        def decorate(function: object) -> object:
            try:
                return write(function)
            except (TypeError, ValueError, AttributeError, LookupError):
                return function

        return decorate

    return documented


def _or_not_there(download: Callee[object]) -> Callee[object]:
    """Let a file that isn't on this machine be a path that does not exist: loading weights from it is answered.

    Libraries know what to do without it.
    """

    def hf_hub_download(*args: object, **kwargs: object) -> object:
        try:
            return download(*args, **kwargs)
        except (OSError, ConnectionError, ValueError):
            if sys._getframe(1).f_globals.get("__name__", "").split(".")[0] in _LIBRARIES:
                raise
            name = str(kwargs.get("filename", args[1] if len(args) > 1 else ""))
            return str(Path("not-downloaded") / str(kwargs.get("repo_id", args[0] if args else "")) / name)

    return hf_hub_download


def _set(module: ModuleType, path: str, value: object) -> None:
    *holders, name = path.split(".")
    setattr(reduce(getattr, holders, cast("object", module)), name, value)


_LIBRARIES = {"transformers", "diffusers", "timm", "peft", "accelerate", "huggingface_hub", "datasets"}
_WHEN_IMPORTED: dict[str, Callable[[ModuleType], None]] = {
    "transformers.modeling_utils": _without_hub,
    "transformers.models.auto.auto_factory": _auto_without_hub,
    "transformers.configuration_utils": _configs_without_hub,
    "transformers.utils.doc": _any_docstring,
    "diffusers.models.modeling_utils": _diffusers_without_hub,
    "timm.models._builder": _timm_without_hub,
    "huggingface_hub": _hub_without_weights,
    "safetensors.torch": _safetensors_or_not,
    "tiktoken.registry": tiktoken_or_not,
    "torchvision.ops.boxes": _boxes_at_once,
}
_DEFERRED = {
    "torch_dtype",
    "dtype",
    "config",
    "quantization_config",
    "load_in_4bit",
    "load_in_8bit",
    "attn_implementation",
}
_OF_LOADING = {
    "cache_dir", "force_download", "local_files_only", "token", "use_auth_token", "revision", "use_safetensors",
    "weights_only", "ignore_mismatched_sizes", "device_map", "max_memory", "offload_folder", "offload_state_dict",
    "low_cpu_mem_usage", "output_loading_info", "state_dict", "subfolder", "variant", "trust_remote_code", "proxies",
    "resume_download", "from_tf", "from_flax", "mirror", "_fast_init", "key_mapping", "use_kernels", "code_revision",
    "attn_implementation",
}  # fmt: skip


def _hugging_face(cls: type, /, name: object = None, *_args: object, **kwargs: object) -> object:
    from remat.probe.target.hugging_face import from_name  # noqa: PLC0415  (it imports transformers)

    if not isinstance(name, str | os.PathLike) and kwargs.get("config") is None:
        raise FactMissingError(
            f"which model is loaded: the name given to {cls.__name__}.from_pretrained is {name!r} here",
            'say it as the script is started, in a line above the call: # remat: probe(args="--model NAME"), or probe '
            "that model by its name: hf:NAME",
        )
    quantised = next((key for key in ("quantization_config", "load_in_4bit", "load_in_8bit") if kwargs.get(key)), None)
    if quantised:
        raise FactMissingError(
            f"quantised weights ({quantised}) can't be estimated yet", f"leave {quantised} out to probe without it"
        )
    settings = {key: value for key, value in kwargs.items() if key not in _OF_LOADING | _DEFERRED}
    dtype = kwargs.get("dtype", kwargs.get("torch_dtype"))
    attention = cast("str | None", kwargs.get("attn_implementation"))
    model = from_name(cls, str(name), kwargs.get("config"), settings, dtype, attention)
    note(f"pretrained weights of {name} are left out: the model is made from its config.json")
    return (model, {}) if kwargs.get("output_loading_info") else model


def _diffusers(cls: type, /, name: object = None, *_args: object, **kwargs: object) -> object:
    from remat.probe.target.hugging_face import config_of  # noqa: PLC0415

    folder = f"{name}/{kwargs['subfolder']}" if kwargs.get("subfolder") else str(name)
    config = config_of(folder, Path.cwd())
    model = cast("Callable[[object], nn.Module]", getattr(cls, "from_config"))(config)  # noqa: B009  (of diffusers' mixin)
    dtype = kwargs.get("torch_dtype")
    return model.to(dtype) if dtype is not None else model


class _NotedImports:
    """Changes a library right after it is imported."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _: object = None) -> ModuleSpec | None:
        if name not in _WHEN_IMPORTED:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _Changing(spec.loader, _WHEN_IMPORTED[name]))
        return spec


class _Changing:
    def __init__(self, loader: Loader, change: Callable[[ModuleType], None]) -> None:
        self.loader = loader
        self.change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.change(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self.loader, name)
