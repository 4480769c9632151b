"""The installation: missing modules, removed names, binary interfaces, the model hub."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.signature import Facts, Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Seen

_OF_TORCH = re.compile(r"c10|(?<!\d)2at(?=\d|[A-Z_])|5torch|torch")
_PACKAGE = re.compile(r"(?:site-packages/|/)(?P<package>[A-Za-z]\w+?)(?:_2_cuda)?(?:[./]\S*)?\.so")


def _library(seen: Seen) -> Facts | None:
    if _OF_TORCH.search(seen.facts["symbol"]):
        return seen.facts
    check = f"ldd {seen.facts['library']}; echo $LD_LIBRARY_PATH; python -m pip list"
    return {
        **seen.facts,
        "why": "met a library of another version than it was built for",
        "whose": "which no loaded library has",
        "remedy": "Find who should define it (for names of CUDA and NCCL: pip's nvidia-* packages against "
        "the system's in LD_LIBRARY_PATH), and install the version that belongs to this torch",
        "check": check,
    }


def _imported(seen: Seen) -> Facts | None:
    facts = dict(seen.facts)
    facts["package"] = facts["module"].partition(".")[0]
    if "circular import" in seen.text:
        facts["why"] = "it is imported in a circle, so that it was asked for before it was made"
        facts["remedy"] = (
            "Break the circle: move the import into the function that needs it, or rename your file, if there is one, "
            f"that is called {facts['package']}.py"
        )
    elif facts["name"] == "AdamW":
        facts["remedy"] = "Import AdamW from torch.optim"
    return facts


SIGNATURES = (
    Signature(
        id="env.abi_symbol",
        words=("undefined symbol",),
        pattern=r"(?P<library>[\w./+-]{1,300}\.so[\w.]*): undefined symbol: (?P<symbol>\S+)",
        read=_library,
        weight=3,
        cause="{library} {why}: it needs {symbol}, {whose}.",
        fix="{remedy}.",
        verify="{check}",
        extra={
            "why": "was compiled against another PyTorch",
            "whose": "a symbol of PyTorch's C++ interface (ABI)",
            "remedy": "Rebuild or reinstall the extension against the installed torch (the wheel for exactly this "
            "torch, CUDA and C++ ABI)",
            "check": "python -c 'import torch; print(torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI)'; then import "
            "the extension alone",
        },
        sources=("dynamic loader text",),
        examples=("OSError: ./libcustom.so: undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKSs",),
    ),
    Signature(
        id="env.glibc",
        words=("GLIBC",),
        pattern=r"version `(?P<version>GLIBC(?:XX)?_[\d.]+)' not found(?: \(required by (?P<library>[^)]+)\))?",
        weight=3,
        cause="The system's C library is too old: {version} is not found, {library} needs it.",
        fix="Use a build for this system (older wheel, conda's libstdcxx-ng), or a newer container image.",
        runnable=True,
        verify="ldd --version; strings $(gcc -print-file-name=libstdc++.so.6) | grep GLIBCXX | tail -1",
        sources=("dynamic loader text",),
        extra={"library": "the extension"},
        examples=(
            (
                "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found (required by "
                "/venv/lib/x.so)"
            ),
        ),
    ),
    Signature(
        id="env.numpy_abi",
        words=(
            "numpy.core.multiarray failed to import",
            "numpy.dtype size changed",
            "compiled using NumPy 1.x",
            "_ARRAY_API not found",
            "numpy._core",
            "Numpy is not available",
        ),
        pattern=r"numpy\.core\.multiarray failed to import|numpy\.dtype size changed|compiled using NumPy 1\.x"
        r"|_ARRAY_API not found|Numpy is not available"
        r"|No module named 'numpy\._core",
        weight=3,
        cause="A compiled module was built for another major NumPy (NumPy 1 against NumPy 2) than the one installed.",
        fix="pip install 'numpy<2', or upgrade the module that fails to import to a build for NumPy 2.",
        verify="python -c 'import numpy; print(numpy.__version__)'; then import the module alone",
        sources=("numpy/core/src/multiarray text",),
        examples=("ImportError: numpy.core.multiarray failed to import",),
    ),
    Signature(
        id="env.import_name",
        words=("cannot import name", "has no attribute"),
        pattern=r"cannot import name '(?P<name>\w+)' from (?:partially initialized module )?'"
        r"(?P<module>[\w.]+)'|module '(?P<module2>[\w.]+)' has no attribute '(?P<name2>\w+)'",
        read=_imported,
        cause="The installed {module} has no {name}: {why}.",
        fix="{remedy}, or install the version of {package} that the code was written for.",
        runnable=True,
        verify="python -m pip show {package}; python -c 'import {package}; print({package}.__file__)'",
        sources=("Python import machinery",),
        extra={
            "module": "module",
            "name": "such name",
            "package": "PACKAGE",
            "why": "it was removed or renamed in this version, or a local file shadows the module",
            "remedy": "Import it from where it lives now",
        },
        examples=(
            (
                "ImportError: cannot import name 'AdamW' from 'transformers' "
                "(/venv/lib/python3.11/site-packages/transformers/__init__.py)"
            ),
        ),
    ),
    Signature(
        id="env.module_missing",
        words=(
            "No module named",
            "ModuleNotFoundError",
            "cannot open shared object file",
            "requires the ",
            "to be not installed",
        ),
        pattern=r"No module named '?(?P<module>[\w.]+)'?|ImportError: (?P<library>\S+): cannot open shared "
        r"object file|ImportError: .{0,80}requires the (?P<needed>\w+) library"
        r"|the package (?P<module2>\w+) seems to be not installed",
        weight=1,
        cause="The module {module} is not installed in the environment that ran.",
        fix="Install {module} in that environment (pip install), or run with the interpreter that has it.",
        runnable=True,
        verify="python -m pip show {module}; which python",
        sources=("Python import machinery",),
        extra={"module": "that the message names"},
        examples=("ModuleNotFoundError: No module named 'flash_attn'",),
    ),
    Signature(
        id="hub.gated",
        words=("gated repo", "Cannot access gated", "GatedRepoError"),
        pattern=r"gated repo|GatedRepoError",
        weight=3,
        cause="The repository is gated: access must be granted, and the request must be authenticated with a token.",
        fix="Request access on the model's page, then log in: hf auth login (or set HF_TOKEN).",
        verify="hf auth whoami; hf download REPO config.json",
        sources=("huggingface_hub/utils/_http.py",),
        examples=("OSError: You are trying to access a gated repo.\nMake sure to have access to it.",),
    ),
    Signature(
        id="hub.unreachable",
        words=(
            "We couldn't connect to",
            "LocalEntryNotFoundError",
            "OfflineModeIsEnabled",
            "Max retries exceeded with url",
            "outgoing traffic has been disabled",
        ),
        pattern=r"We couldn't connect to '?(?P<url>[^' \n]+)|LocalEntryNotFoundError|OfflineModeIsEnabled"
        r"|outgoing traffic has been disabled"
        r"|Max retries exceeded with url",
        cause="The model hub could not be reached and the files are not in the local cache (HF_HUB_OFFLINE, or "
        "no network).",
        fix="Pre-download on a machine with network (hf download) and point HF_HOME at that cache, or unset "
        "HF_HUB_OFFLINE.",
        runnable=True,
        verify="echo $HF_HUB_OFFLINE; ls $HF_HOME/hub",
        sources=("transformers/utils/hub.py:621, transformers 5.24.0",),
        examples=(
            (
                "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them "
                "in the cached files."
            ),
        ),
    ),
)
