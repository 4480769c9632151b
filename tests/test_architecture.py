"""The invariants of ARCHITECTURE.md, each as a test."""

from __future__ import annotations

import ast
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_socket

from remat.lint.rules import RULES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "server" / "remat"
MODULES = sorted(PACKAGE.rglob("*.py"))
VALUES = ("finding", "libraries", "settings", "versions")  # what the core and the shells share
CORE = [
    m for m in MODULES if m.relative_to(PACKAGE).parts[0] in {"lint", "plan", "diagnose", *(f"{v}.py" for v in VALUES)}
]
# They may not read files, start processes or know an editor; whoever calls them passes texts and versions in.
FORBIDDEN_IN_THE_CORE = {
    "asyncio", "click", "io", "lsprotocol", "os", "pathlib", "pygls", "rich", "shutil", "socket", "subprocess",
    "tempfile", "torch", "transformers", "urllib",
}  # fmt: skip
TERMINAL = {"cli.py", "commands.py", "output.py", "probe_options.py"}  # what understands options and draws
VAGUE = {"utils", "util", "common", "helpers", "helper", "core", "manager", "service", "misc"}


def imports(module: Path) -> set[str]:
    """Every module that `module` imports, wherever the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute here"
            found.add(node.module or "")
    return found


def top_level(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("module", CORE, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_the_core_does_no_input_or_output_and_knows_no_editor(module: Path) -> None:
    assert top_level(imports(module)) & FORBIDDEN_IN_THE_CORE == set()
    calls = [n for n in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
    assert [n.lineno for n in calls if isinstance(n.func, ast.Name) and n.func.id in {"open", "print", "input"}] == []


@pytest.mark.parametrize("module", CORE, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_the_core_imports_nothing_of_the_shells(module: Path) -> None:
    shells = {f"remat.{m.stem}" for m in PACKAGE.glob("*.py") if m.stem not in VALUES} | {"remat.lsp", "remat.render"}
    assert {
        name for name in imports(module) if name in shells or name.startswith(("remat.lsp.", "remat.render."))
    } == set()


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_only_the_language_server_knows_the_protocol_and_only_the_command_line_its_libraries(module: Path) -> None:
    used = top_level(imports(module))
    if module.relative_to(PACKAGE).parts[0] != "lsp":
        assert used & {"pygls", "lsprotocol"} == set()
    if str(module.relative_to(PACKAGE)) not in TERMINAL:
        assert used & {"click", "rich"} == set()


PROBE = PACKAGE / "probe"
SHARED = ("__init__", "messages", "lines", "calibration", "plain_pickle", "frames", "processes")
BOTH = {PROBE / f"{name}.py" for name in SHARED}
IN_THE_PARENT = BOTH | {PROBE / f"{name}.py" for name in ("run", "gpus", "recorded")}
WORKER = [m for m in MODULES if PROBE in m.parents and m not in IN_THE_PARENT]  # runs under the user's interpreter


@pytest.mark.parametrize("module", [m for m in MODULES if m not in WORKER], ids=lambda m: str(m.relative_to(PACKAGE)))
def test_only_the_probe_s_worker_imports_torch(module: Path) -> None:
    assert top_level(imports(module)) & {"torch", "transformers", "peft"} == set()


@pytest.mark.parametrize("module", [*WORKER, *sorted(BOTH)], ids=lambda m: str(m.relative_to(PACKAGE)))
def test_the_probe_s_worker_runs_where_only_the_user_s_packages_are(module: Path) -> None:
    used = imports(module)
    allowed = {"torch", "transformers", "peft", "remat", "_typeshed", *sys.stdlib_module_names}
    assert top_level(used) - allowed == set()
    assert {name for name in used if name.startswith("remat") and not name.startswith("remat.probe")} == set()


@pytest.mark.parametrize("module", CORE, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_no_part_of_libcst_that_costs_more_than_a_parse_is_used(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert [w for w in ("libcst.matchers", "libcst.metadata", "MetadataWrapper", "CSTVisitor") if w in text] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_a_module_has_one_subject_a_docstring_and_a_name_that_says_it(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert module.stem not in VAGUE
    code = [line for line in text.splitlines() if line.strip()]
    is_rule = module.parent.name == "rules"  # a rule's examples stand with it
    assert len(code) <= (700 if is_rule else 300)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_a_function_fits_on_a_screen(module: Path) -> None:
    functions = (
        n
        for n in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    long = [(f.name, (f.end_lineno or f.lineno) - f.lineno + 1) for f in functions]
    assert [(name, lines) for name, lines in long if lines > 40] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_s_name_is_its_file_its_page_and_its_proof(rule: object) -> None:
    module = rule.name.replace("-", "_")  # type: ignore[attr-defined]
    assert (PACKAGE / "lint" / "rules" / f"{module}.py").exists()
    assert (ROOT / "docs" / "rules" / f"{rule.name}.md").exists()  # type: ignore[attr-defined]
    assert list((ROOT / "tests" / "proofs").glob(f"*{module}.py"))


def test_findings_do_not_depend_on_the_hash_seed() -> None:
    files = [str(p) for p in sorted((ROOT / "examples").rglob("*.py"))]
    command = [sys.executable, "-m", "remat", "check", "--output-format", "json", *files]
    outputs = set()
    for seed in range(20):
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONHASHSEED": str(seed), "PATH": ""},
            cwd=ROOT,
        )
        assert json.loads(run.stdout), "the examples hold mistakes; an empty list proves nothing"
        outputs.add(run.stdout)
    assert len(outputs) == 1


def test_no_test_reaches_the_network() -> None:
    with socket.socket() as connection, pytest.raises(pytest_socket.SocketConnectBlockedError):
        connection.connect(("192.0.2.1", 80))  # an address that documents may use, and nobody has


def test_a_check_of_one_file_does_not_load_the_terminal_or_the_server_libraries() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "remat", "check", "--output-format", "json"]
    run = subprocess.run([*command, PACKAGE / "finding.py"], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines() if line.startswith("import time:")}
    assert "remat.lint.check" in loaded
    assert loaded & {"rich", "pygls", "lsprotocol", "torch", "multiprocessing.pool"} == set()


def test_no_text_of_a_log_reaches_a_message_of_the_editor_but_through_one_module() -> None:
    sources = [path for path in (ROOT / "extension").rglob("*.ts") if path.name != "message.ts"]
    shows = re.compile(r"\bshow(?:Information|Warning|Error)Message\b")
    assert [str(path) for path in sources if shows.search(path.read_text(encoding="utf-8"))] == []
