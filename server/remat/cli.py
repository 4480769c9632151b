"""The command line: `remat check`, `fix`, `diagnose`, `probe`, `rules`, `lsp`. Exit 0: clean, 1: problems, 2: error."""

# What a command needs is imported when it runs: `remat --help` should not wait for the parser.
# ruff: noqa: PLC0415
from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, ParamSpec, TypedDict

import click

from remat import __version__, probe_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from remat.commands import Request


class Given(TypedDict):
    """The options that `check` and `fix` share, as click hands them over."""

    paths: tuple[str, ...]
    output_format: str
    versions: str
    python: str | None
    stdin_filename: str | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]


_FORMATS = ("full", "concise", "json", "github")
_Parameters = ParamSpec("_Parameters")


def main() -> None:
    """Run the command line and exit. A fault of ours ends with 2: 1 would read as "problems found"."""
    from remat.links import REPORT
    from remat.output import survive_any_encoding, warn

    survive_any_encoding()
    try:
        remat.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        warn("interrupted")
        sys.exit(130)
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        warn(f"internal error in version {__version__}; {REPORT}, with the lines above")
        sys.exit(2)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="remat", message="%(prog)s %(version)s")
def remat() -> None:
    """Find, explain and fix memory and gradient mistakes around activation checkpointing in PyTorch code."""


def _options(command: Callable[_Parameters, None]) -> Callable[_Parameters, None]:
    """Add what `check` and `fix` share."""
    for decorate in reversed(
        (
            click.argument("paths", nargs=-1, metavar="[PATH… | -]"),
            click.option(
                "--output-format",
                type=click.Choice(_FORMATS),
                default="full",
                show_default=True,
                help="How findings are printed.",
            ),
            click.option(
                "--versions",
                default="",
                metavar="NAME=VERSION,…",
                help="Library versions to assume, such as torch=2.9.1; else those of the environment.",
            ),
            click.option(
                "--python",
                metavar="PATH",
                help="The Python that runs the code, or the folder of its environment; its packages' versions are "
                "read, nothing is run.  [default: VIRTUAL_ENV, CONDA_PREFIX, .venv of the project]",
            ),
            click.option("--stdin-filename", metavar="PATH", help="Where the text of standard input (-) stands."),
            click.option("--select", multiple=True, metavar="RULE,…", help="Use only these rules."),
            click.option("--ignore", multiple=True, metavar="RULE,…", help="Leave these rules out."),
        )
    ):
        command = decorate(command)
    return command


@remat.command(short_help="Print what is wrong.")
@_options
def check(**given: Unpack[Given]) -> None:
    """Look at files and folders (default: this folder) and print what is wrong.

    Exit status: 0 nothing found, 1 problems found, 2 a file or a setting could not be read.
    """
    from remat import commands

    sys.exit(commands.check(_request(given)))


@remat.command()
@click.option(
    "--unsafe-fixes", is_flag=True, help="Make also the fixes that need a look, since they may change results."
)
@click.option("--diff", is_flag=True, help="Print what would change, and write nothing.")
@_options
def fix(*, unsafe_fixes: bool, diff: bool, **given: Unpack[Given]) -> None:
    """Make the safe fixes in files and folders (default: this folder), then print what is left.

    With - the fixed text of standard input goes to standard output.
    Exit status: 0 nothing left, 1 problems left (or, with --diff, on disk), 2 a file or setting not read or written.
    """
    from remat import commands

    sys.exit(commands.fix(_request(given, unsafe=unsafe_fixes), diff=diff))


@remat.command(short_help="Say what failed in a log, and why.")
@click.argument("paths", nargs=-1, metavar="FILE… | -", required=True)
@click.option("--one-run", is_flag=True, help="Take all files together as one run; a folder always is one.")
@click.option(
    "--output-format",
    type=click.Choice(("text", "markdown", "json")),
    default="text",
    show_default=True,
    help="How the report is printed.",
)
def diagnose(*, paths: tuple[str, ...], one_run: bool, output_format: str) -> None:
    """Read the log or traceback of a failed run and say what began it, what followed, and how to fix it.

    Each FILE is a run of its own; a folder (such as torchrun --log-dir wrote) is one run; - is standard input.
    Exit status: 0 nothing failed, 1 a failure was diagnosed, 2 something could not be read.
    """
    from remat import diagnosing

    sys.exit(diagnosing.run(paths, output_format, one_run=one_run))


@remat.command(short_help="Say what memory a model's training step needs.")
@probe_options.options
def probe(**given: Unpack[probe_options.Given]) -> None:
    """Estimate what one training step of a model needs, with and without checkpointing; no GPU and no weights are used.

    TARGET is file.py:ClassName (or a function that returns a model, or a variable that holds one), file.py with a
    comment `# remat: probe(batch=4, seq=2048)`, file.py:LINE of a from_pretrained call, or hf:NAME, a folder with a
    config.json or a name in the local cache of Hugging Face. Training scripts are never run: only what the model is
    made of.

    An option with … takes several values: each combination is a row of the table.

    Exit status: 0 done, and with --budget it fits; 1 it does not surely fit; 2 something failed.
    """
    from remat import probing

    sys.exit(probing.probe(probe_options.asked(given)))


@remat.command(short_help="List the rules, or show the documentation of one.")
@click.argument("name", required=False)
def rules(name: str | None) -> None:
    """List the rules; with a NAME, show that rule's documentation."""
    from remat import commands

    if name is not None:
        _rule_names((name,), "NAME")
    sys.exit(commands.rules(name))


@remat.command(short_help="Serve an editor: the language server.")
@click.option("--stdio", is_flag=True, help="Accepted because editors pass it; there is no other way to talk.")
def lsp(*, stdio: bool) -> None:  # noqa: ARG001  (see its help)
    """Serve an editor: the language server, on standard input and output."""
    from remat.lsp.server import main as serve

    serve()


def _request(given: Given, *, unsafe: bool | None = None) -> Request:
    from remat.commands import STDIN, Request
    from remat.scan import Choices
    from remat.settings import unknown_library
    from remat.versions import Versions

    if STDIN in given["paths"] and len(given["paths"]) > 1:
        raise click.UsageError("- (standard input) cannot be combined with other paths")
    try:
        versions = Versions.parse(given["versions"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--versions") from error
    for message in filter(None, map(unknown_library, versions.known)):
        raise click.BadParameter(message, param_hint="--versions")
    select, ignore = (_rule_names(given[key], f"--{key}") for key in ("select", "ignore"))
    choices = Choices(select or None, ignore or None, versions, given["python"], unsafe)
    return Request(given["paths"] or (".",), given["output_format"], choices, given["stdin_filename"])


def _rule_names(given: tuple[str, ...], option: str) -> frozenset[str]:
    if not given:
        return frozenset()
    from remat.scan import OPTIONS
    from remat.settings import unknown_name

    names = [name.strip() for part in given for name in part.split(",") if name.strip()]
    for name in names:
        if name not in OPTIONS:
            raise click.BadParameter(unknown_name("rule", name, OPTIONS), param_hint=option)
    return frozenset(names)
