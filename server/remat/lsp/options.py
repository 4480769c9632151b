"""What an editor tells the server about itself: initialization options and changed settings, read leniently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pygls.uris import to_fs_path

from remat.lsp.log import LEVELS


@dataclass(frozen=True, slots=True)
class Options:
    """
    `interpreter`: the Python that the user's code runs on; `interpreters` has those of single folders, by path.

    `probe`: the client has a command that probes, so that lenses can offer it.
    """

    interpreter: str | None = None
    interpreters: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "info"
    probe: bool = False

    def interpreter_for(self, path: str) -> str | None:
        """That of the innermost folder around `path`."""
        around = [folder for folder in self.interpreters if path == folder or path.startswith(_closed(folder))]
        return self.interpreters[max(around, key=len)] if around else self.interpreter


def read_options(given: object, before: Options) -> tuple[Options, list[str]]:
    """`before` with what is given; what is not understood keeps its value and is complained about.

    The values may stand at the top, under `settings` or under `remat`: editors differ.
    """
    options, complaints = before, list[str]()
    for table in _tables(given):
        for key, value in table.items():
            try:
                options = _with(options, key, value)
            except TypeError as error:
                complaints.append(f"setting remat.{key}: {error}; it keeps its value")
    return options, complaints


def _tables(given: object) -> list[Mapping[str, object]]:
    if not isinstance(given, Mapping):
        return []
    return [given, *(table for name in ("settings", "remat") for table in _tables(given.get(name)))]


def _with(options: Options, key: str, value: object) -> Options:
    if key == "interpreter":
        if value is not None and not isinstance(value, str):
            raise TypeError(f"expected the path of a Python interpreter or null, got {value!r}")
        return replace(options, interpreter=value or None)
    if key == "interpreters":
        return replace(options, interpreters=_by_folder(value))
    if key == "probe":
        return replace(options, probe=value is True)
    if key == "logLevel":
        if value not in LEVELS:
            raise TypeError(f"expected one of {', '.join(LEVELS)}, got {value!r}")
        return replace(options, log_level=str(value))
    return options  # other settings are the client's own


def _by_folder(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(path, str | None) for path in value.values()):
        raise TypeError(f"expected folder URIs with the paths of their interpreters, got {value!r}")
    return {to_fs_path(str(uri)) or str(uri): path for uri, path in value.items() if path}


def _closed(folder: str) -> str:
    return folder if folder.endswith(("/", "\\")) else folder + ("\\" if "\\" in folder else "/")
