"""The language server: turns what editors say into calls of `analyse`, and findings into what editors show."""

from remat.lsp.server import main

__all__ = ["main"]
