"""Tells statements that only change a model, or ask something of it, from those that reach beyond it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, cast

from torch import nn

from remat.probe.guards import is_users
from remat.probe.target.statements import dotted, holds_training, trains

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.probe.target.calls import Callee

CHANGING = frozenset({
    "requires_grad_", "to", "half", "float", "bfloat16", "double", "type", "eval", "train", "freeze", "unfreeze",
    "apply", "append", "extend", "insert", "add_module", "register_module", "add_adapter", "set_adapter", "pop",
    "load_adapter", "merge_and_unload", "resize_token_embeddings", "tie_weights", "reset_classifier",
    "gradient_checkpointing_enable", "gradient_checkpointing_disable", "activation_checkpointing_enable",
    "activation_checkpointing_disable", "enable_input_require_grads", "set_grad_checkpointing",
    "enable_gradient_checkpointing", "disable_gradient_checkpointing", "freeze_encoder", "freeze_feature_encoder",
    "freeze_feature_extractor", "freeze_base_model", "set_attn_implementation", "fuse_qkv_projections",
    "set_input_embeddings", "set_output_embeddings", "__setattr__", "parametrizations", "cuda", "cpu", "update",
})  # fmt: skip
"""methods that change a module, or a list of them, and nothing else"""
_ASKING = frozenset({
    "parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers",
    "named_buffers", "get_submodule", "get_parameter", "items", "values", "keys", "get", "startswith", "endswith",
    "split", "join", "format", "lower", "upper", "strip", "replace", "numel", "nelement", "element_size", "size", "dim",
    "add", "count", "index", "sort", "match", "search", "fullmatch", "get_input_embeddings", "get_output_embeddings",
    "get_base_model", "is_floating_point", "add_argument", "info", "debug", "warning", "print", "setdefault",
    "print_trainable_parameters", "get_nb_trainable_parameters", "num_parameters", "state_dict", "named_steps",
    "normal_", "uniform_", "zero_", "fill_", "copy_", "clone", "detach", "set_default", "mul_", "div_",
})  # fmt: skip
_BUILT_IN = frozenset({
    "isinstance", "issubclass", "len", "range", "list", "set", "tuple", "dict", "filter", "map", "any", "all", "zip",
    "enumerate", "reversed", "sorted", "getattr", "hasattr", "setattr", "delattr", "print", "sum", "min", "max", "str",
    "int", "float", "bool", "type", "super", "next", "iter", "round", "abs", "id", "repr",
})  # fmt: skip
ACTING = frozenset({
    "get_peft_model", "prepare_model_for_kbit_training", "prepare_model_for_int8_training", "convert_sync_batchnorm",
    "inject_adapter_in_model", "apply_activation_checkpointing", "checkpoint_wrapper", "offload_wrapper", "fully_shard",
    "spectral_norm", "weight_norm", "remove_weight_norm", "parametrize", "remove_parametrizations",
})  # fmt: skip
"""functions of libraries that change the module they are given, or wrap it, and nothing else"""
_OF_LIBRARIES = ACTING | {
    "deepcopy", "partial", "device", "is_available", "adapt_input_conv", "get_parameter_names", "init_device_mesh",
    "MixedPrecisionPolicy", "get_world_size", "get_rank", "DistributedDataParallel", "DDP",
}  # fmt: skip
_DEEPEST = 3


def is_tame(node: ast.AST, find: Callable[[ast.expr], object], depth: int = 0) -> bool:
    """Tell whether running it changes a model alone. `find`: what the name of a function stands for."""
    if trains(node) or holds_training(node) or any(isinstance(n, ast.Await | ast.Yield) for n in ast.walk(node)):
        return False
    return all(_is_tame_call(call, find, depth) for call in ast.walk(node) if isinstance(call, ast.Call))


def _is_tame_call(call: ast.Call, find: Callable[[ast.expr], object], depth: int) -> bool:
    name = dotted(call.func)
    last = last_name(call)
    if last in CHANGING | _ASKING | _OF_LIBRARIES or name in _BUILT_IN or name.startswith(("nn.init.", "init.")):
        return True
    try:
        thing = find(call.func)
    except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
        return False
    if isinstance(getattr(thing, "__self__", None), nn.Module) and source_of(thing) is None:
        return is_setting(last)  # a library's own
    if isinstance(thing, type):
        return issubclass(thing, nn.Module) or thing.__name__.endswith("Config")
    return is_tame_function(thing, depth)


def is_setting(method: str) -> bool:
    """Tell methods of libraries' modules that set or tell something, by their names."""
    return method.startswith(("get_", "set_", "is_", "has_", "freeze", "unfreeze", "enable_", "disable_", "reset_"))


def is_tame_function(thing: object, depth: int = 0) -> bool:
    """Tell whether a function of the user's changes what it is given alone, as its source has it."""
    tree = source_of(thing)
    if tree is None or depth >= _DEEPEST:
        return False
    names = getattr(thing, "__globals__", {})

    def find(node: ast.expr) -> object:
        if not isinstance(node, ast.Name):
            raise LookupError(ast.unparse(node))
        return names[node.id] if node.id in names else names["__builtins__"][node.id]

    return is_tame(tree, find, depth + 1)


def source_of(thing: object) -> ast.FunctionDef | None:
    """The definition of a function of the user's; None of others."""
    function = inspect.unwrap(cast("Callee[object]", thing)) if callable(thing) else thing
    code = getattr(function, "__code__", None)
    if code is None or not is_users(code.co_filename):
        return None
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    ast.increment_lineno(tree, first - 1)
    return next((n for n in tree.body if isinstance(n, ast.FunctionDef)), None)


def begins(node: ast.AST) -> bool:
    """Tell whether a statement is where training begins: it calls backward, or a trainer to train."""
    calls = [n.func for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return any(
        f.attr in {"backward", "fit"} or (f.attr == "train" and "train" in dotted(f.value).lower()) for f in calls
    )


def changes_parts(loop: ast.For) -> bool:
    return any(changes(inner) for statement in loop.body for inner in ast.walk(statement))


def changes(node: ast.AST) -> bool:
    """Tell whether a node changes a module or parameter: `p.requires_grad = False`, `.half()`, `m.a[0] = f(m.a[0])`."""
    if isinstance(node, ast.Assign):
        return any(_is_of_something(target) for target in node.targets)
    if not isinstance(node, ast.Call):
        return False
    return last_name(node) in ACTING or (isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING)


def _is_of_something(target: ast.expr) -> bool:
    if isinstance(target, ast.Subscript):
        return isinstance(target.value, ast.Attribute)
    return isinstance(target, ast.Attribute) and dotted(target.value) != "self"


def trains_other_parts(node: ast.AST) -> bool:
    return any(
        (isinstance(n, ast.Attribute) and n.attr == "requires_grad" and isinstance(n.ctx, ast.Store))
        or (isinstance(n, ast.Call) and last_name(n) in {"requires_grad_", "freeze", "unfreeze"})
        for n in ast.walk(node)
    )


def last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)
