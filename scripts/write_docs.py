"""Write docs/rules and docs/failures from the rules' and signatures' modules; --check: only say what is outdated."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "server"))

from remat.diagnose.signatures import FAMILIES, SIGNATURES  # noqa: E402
from remat.lint.rules import RULES  # noqa: E402
from remat.render import failure_page  # noqa: E402
from remat.render.rule_page import page  # noqa: E402

_NOTE = "<!-- Written by scripts/write_docs.py from server/remat/lint/rules/{module}.py; edit that. -->\n\n"
_FAILURE_NOTE = (
    "<!-- Written by scripts/write_docs.py from server/remat/diagnose/signatures/{module}.py; edit that. -->\n\n"
)


def pages() -> dict[Path, str]:
    """What each file under docs/rules and docs/failures should say."""
    return _rules() | _failures()


def _failures() -> dict[Path, str]:
    folder = ROOT / "docs" / "failures"
    found: dict[Path, str] = {}
    for family in FAMILIES:
        note = _FAILURE_NOTE.format(module=family.__name__.rpartition(".")[2])
        found |= {folder / f"{s.id}.md": note + failure_page.page(s) for s in family.SIGNATURES}
    rows = "".join(
        f"| [{s.id}]({s.id}.md) | {failure_page.title(s)} |\n" for s in sorted(SIGNATURES, key=lambda s: s.id)
    )
    found[folder / "README.md"] = f"# Failures\n\n| kind | what happened |\n|---|---|\n{rows}"
    return found


def _rules() -> dict[Path, str]:
    folder = ROOT / "docs" / "rules"
    found = {
        folder / f"{rule.name}.md": _NOTE.format(module=rule.module.rpartition(".")[2]) + page(rule) for rule in RULES
    }
    rows = "".join(f"| [{r.name}]({r.name}.md) | {r.severity.value} | {r.summary} |\n" for r in RULES)
    found[folder / "README.md"] = f"# Rules\n\n| rule | severity | what it reports |\n|---|---|---|\n{rows}"
    return found


def outdated() -> list[Path]:
    """The pages that are missing, differ from their rule, or belong to no rule."""
    wanted = pages()
    present = {path for folder in ("rules", "failures") for path in (ROOT / "docs" / folder).glob("*.md")}
    stale = {path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text}
    return sorted(stale | (present - set(wanted)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        stale = outdated()
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date; run `python scripts/write_docs.py`")
        sys.exit(bool(stale))
    wanted = pages()
    for path in outdated():
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()


if __name__ == "__main__":
    main()
