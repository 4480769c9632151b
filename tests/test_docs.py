"""The documents say what the code does: generated pages are current, links lead somewhere, commands exist."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from remat.lint.rules import RULES

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")])


def test_the_pages_of_the_rules_are_what_their_modules_say() -> None:
    written = subprocess.run(
        [sys.executable, ROOT / "scripts" / "write_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert written.stdout == ""
    assert written.returncode == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_a_relative_link_leads_to_a_file_of_the_project(document: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?://|#|command:)([^)\s#]+)", prose)
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_an_npm_script_that_a_document_names_exists(document: Path) -> None:
    scripts = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["scripts"]
    text = document.read_text(encoding="utf-8")
    named = {*re.findall(r"npm run ([a-z:]+)", text), *(["test"] if "npm test" in text else [])}
    assert named <= set(scripts)


def test_the_readme_names_both_commands_on_its_first_screen() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40])
    assert "npm run demo" in first_screen
    assert "npm test" in first_screen


def test_the_readme_lists_every_rule() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [rule.name for rule in RULES if f"[{rule.name}](docs/rules/{rule.name}.md)" not in text] == []


def test_the_extension_and_the_package_have_the_same_version() -> None:
    extension = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["version"]
    package = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    module = re.search(r'^__version__ = "(.+)"$', (ROOT / "server/remat/__init__.py").read_text("utf-8"), re.MULTILINE)
    assert package is not None
    assert module is not None
    assert {package[1], module[1]} == {extension}


def test_both_ends_of_a_request_agree() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write_protocol.py"))
    for path, (module, about) in script["FILES"].items():
        written = script["typescript"](module, about)
        assert path.read_text(encoding="utf-8") == written, "run scripts/write_protocol.py"
