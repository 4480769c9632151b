"""Loaded by every Python that a failing program starts: refuses to leave this machine, and notes who tried."""

import os
import sys
from pathlib import Path

LOCAL = ("127.", "::1", "localhost", "::ffff:127.")


def watch(event, arguments):
    if event not in {"socket.connect", "socket.sendto"}:
        return
    address = arguments[-1]
    if isinstance(address, tuple) and not str(address[0]).startswith(LOCAL):
        with Path(os.environ["REMAT_OUTBOUND"]).open("a") as file:
            file.write(f"{address}\n")
        raise OSError(f"connecting to {address} is refused in tests")


if "REMAT_OUTBOUND" in os.environ:
    sys.addaudithook(watch)
