"""`python -m remat`: the same as the command `remat`."""

from __future__ import annotations

from remat.cli import main

main()
