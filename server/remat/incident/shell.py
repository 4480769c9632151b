"""Whether the check that a report proposes is a command that a shell can run as it stands."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remat.diagnose.signature import Signature

_FACT = re.compile(r"(?<!\{)\{\w+\}(?!\})")
_EVERYWHERE = ("python ", "pip ", "nvidia-smi")
_HARMLESS = r"(?!-)[\w./:@%+,=-]*"  # a fact comes from the log: nothing that means something to a shell


def runnable(signature: Signature, verify: str) -> bool:
    """Whether `verify` is `signature`'s own command, with nothing from the log in it that a shell would act on."""
    if not signature.runnable or (sys.platform == "win32" and not verify.startswith(_EVERYWHERE)):
        return False
    parts = [re.escape(part.replace("{{", "{").replace("}}", "}")) for part in _FACT.split(signature.verify)]
    return re.fullmatch(_HARMLESS.join(parts), verify) is not None
