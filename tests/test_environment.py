"""The user's library versions are found in every kind of environment, without running a line of code."""

from __future__ import annotations

import sys

import pytest

from remat.environment import Environment, find_environment, layered
from remat.versions import Versions


def install(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).mkdir()
    return folder


def venv(root, *names, python="python3.11"):
    """A virtual environment as `python -m venv` lays it out, its interpreter a link to the system's."""
    install(root / "lib" / python / "site-packages", *names)
    (root / "bin").mkdir()
    (root / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.7\n")
    (root / "bin" / "python").symlink_to(sys.executable)
    return root


def found(start, python=None, **environ):
    environment = find_environment(start, str(python) if python else None, environ)
    return {name: str(version) for name, version in environment.versions.known.items()}


def test_a_version_is_read_from_the_name_of_the_dist_info(tmp_path):
    root = venv(tmp_path / "env", "torch-2.9.1+cu126.dist-info", "flash_attn-2.8.3.dist-info", "numpy-2.0.dist-info")
    assert found(tmp_path, root / "bin" / "python") == {"torch": "2.9.1+cu126", "flash-attn": "2.8.3"}


def test_an_egg_info_is_read_by_its_name_or_by_what_it_says(tmp_path):
    root = venv(tmp_path / "env", "transformers-4.57.6-py3.11.egg-info", "peft.egg-info")
    packages = root / "lib" / "python3.11" / "site-packages"
    (packages / "peft.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: peft\nVersion: 0.17.1\n")
    (packages / "trl-0.24.0.egg-info").write_text("Name: trl\n")
    assert found(tmp_path, root) == {"transformers": "4.57.6", "peft": "0.17.1", "trl": "0.24.0"}


def test_what_an_interrupted_upgrade_left_behind_does_not_count(tmp_path):
    root = venv(tmp_path / "env", "~orch-2.0.0.dist-info", "torch-2.9.1.dist-info", "torch-x.y.dist-info")
    assert found(tmp_path, root) == {"torch": "2.9.1"}


def test_an_interpreter_that_is_a_link_belongs_to_the_environment_it_lies_in(tmp_path):
    root = venv(tmp_path / "env", "torch-2.9.1.dist-info")
    assert found(tmp_path, root / "bin" / "python") == {"torch": "2.9.1"}


def test_a_link_to_the_interpreter_of_an_environment_leads_to_that_environment(tmp_path):
    venv(tmp_path / "env", "torch-2.9.1.dist-info")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "mypython").symlink_to("../env/bin/python")
    assert found(tmp_path, tmp_path / "tools" / "mypython") == {"torch": "2.9.1"}


def test_a_conda_environment_is_read(tmp_path):
    install(tmp_path / "conda" / "lib" / "python3.12" / "site-packages", "torch-2.5.1-py3.12.egg-info")
    (tmp_path / "conda" / "bin").mkdir()
    (tmp_path / "conda" / "bin" / "python3.12").write_text("")
    assert found(tmp_path, tmp_path / "conda" / "bin" / "python3.12") == {"torch": "2.5.1"}


def test_a_windows_environment_is_read(tmp_path):
    install(tmp_path / "env" / "Lib" / "site-packages", "torch-2.9.1.dist-info")
    (tmp_path / "env" / "Scripts").mkdir()
    (tmp_path / "env" / "Scripts" / "python.exe").write_text("")
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = C:\\Python311\n")
    assert found(tmp_path, tmp_path / "env" / "Scripts" / "python.exe") == {"torch": "2.9.1"}


def test_a_windows_conda_environment_has_its_interpreter_at_the_root(tmp_path):
    install(tmp_path / "env" / "Lib" / "site-packages", "torch-2.9.1.dist-info")
    (tmp_path / "env" / "python.exe").write_text("")
    assert found(tmp_path, tmp_path / "env" / "python.exe") == {"torch": "2.9.1"}


def test_a_system_python_on_debian_is_read(tmp_path):
    install(tmp_path / "usr" / "lib" / "python3" / "dist-packages", "torch-1.13.1.egg-info", "timm-0.8.0.dist-info")
    install(tmp_path / "usr" / "local" / "lib" / "python3.11" / "dist-packages", "torch-2.9.1.dist-info")
    (tmp_path / "usr" / "bin").mkdir()
    (tmp_path / "usr" / "bin" / "python3.11").write_text("")
    (tmp_path / "usr" / "bin" / "python3").symlink_to("python3.11")
    assert found(tmp_path, tmp_path / "usr" / "bin" / "python3") == {"torch": "2.9.1", "timm": "0.8.0"}


def test_packages_of_the_user_come_before_those_of_the_system(tmp_path):
    install(tmp_path / "usr" / "lib" / "python3.11" / "site-packages", "torch-2.0.0.dist-info")
    install(tmp_path / "home" / ".local" / "lib" / "python3.11" / "site-packages", "torch-2.9.1.dist-info")
    (tmp_path / "usr" / "bin").mkdir()
    (tmp_path / "usr" / "bin" / "python3.11").write_text("")
    python = tmp_path / "usr" / "bin" / "python3.11"
    assert found(tmp_path, python, HOME=str(tmp_path / "home")) == {"torch": "2.9.1"}
    assert found(tmp_path, python, HOME=str(tmp_path / "home"), PYTHONNOUSERSITE="1") == {"torch": "2.0.0"}


def test_the_interpreter_decides_which_of_several_pythons_is_meant(tmp_path):
    for number, torch in (("3.9", "1.13.1"), ("3.11", "2.9.1")):
        install(tmp_path / "usr" / "lib" / f"python{number}" / "site-packages", f"torch-{torch}.dist-info")
    (tmp_path / "usr" / "bin").mkdir()
    for number in ("3.9", "3.11"):
        (tmp_path / "usr" / "bin" / f"python{number}").write_text("")
    (tmp_path / "usr" / "bin" / "python3").symlink_to("python3.9")
    assert found(tmp_path, tmp_path / "usr" / "bin" / "python3") == {"torch": "1.13.1"}
    assert found(tmp_path, tmp_path / "usr" / "bin" / "python3.11") == {"torch": "2.9.1"}


def test_an_environment_that_sees_the_systems_packages_falls_back_to_them(tmp_path):
    install(tmp_path / "usr" / "lib" / "python3.11" / "site-packages", "torch-2.0.0.dist-info", "peft-0.17.1.dist-info")
    root = venv(tmp_path / "env", "torch-2.9.1.dist-info")
    (root / "pyvenv.cfg").write_text(
        f"home = {tmp_path}/usr/bin\ninclude-system-site-packages = true\nversion = 3.11.7\n"
    )
    assert found(tmp_path, root) == {"torch": "2.9.1", "peft": "0.17.1"}


def test_a_folder_of_packages_may_be_named_itself(tmp_path):
    folder = install(tmp_path / "site-packages", "torch-2.9.1.dist-info")
    assert found(tmp_path, folder) == {"torch": "2.9.1"}


def test_an_interpreter_may_be_named_as_on_the_command_line(tmp_path):
    root = venv(tmp_path / "env", "torch-2.9.1.dist-info")
    (root / "bin" / "python").unlink()
    (root / "bin" / "python").write_text("#!/bin/sh\n")
    (root / "bin" / "python").chmod(0o755)
    assert found(tmp_path, "python", PATH=str(root / "bin")) == {"torch": "2.9.1"}


def test_an_interpreter_that_does_not_exist_is_an_error_that_says_what_was_expected(tmp_path):
    with pytest.raises(ValueError, match=r"expected a Python interpreter or the folder of an environment, but .*/nope"):
        found(tmp_path, tmp_path / "nope")


def test_a_link_that_leads_nowhere_is_an_error_that_says_where_it_led(tmp_path):
    (tmp_path / "python").symlink_to("gone/python")
    with pytest.raises(ValueError, match="is a link to gone/python, which does not exist"):
        found(tmp_path, tmp_path / "python")


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ValueError, match="does not exist"):
        found(tmp_path, tmp_path / "a")


def test_the_order_is_the_chosen_interpreter_then_the_active_environment_then_the_projects_own(tmp_path):
    chosen = venv(tmp_path / "chosen", "torch-2.1.0.dist-info")
    active = venv(tmp_path / "active", "torch-2.2.0.dist-info")
    conda = venv(tmp_path / "conda", "torch-2.3.0.dist-info")
    project = tmp_path / "project"
    venv(project / ".venv", "torch-2.4.0.dist-info")
    (project / "pyproject.toml").write_text("")
    (project / "src").mkdir()
    start = project / "src"
    both = {"VIRTUAL_ENV": str(active), "CONDA_PREFIX": str(conda)}
    assert found(start, chosen, **both) == {"torch": "2.1.0"}
    assert found(start, **both) == {"torch": "2.2.0"}
    assert found(start, CONDA_PREFIX=str(conda)) == {"torch": "2.3.0"}
    assert found(start) == {"torch": "2.4.0"}


def test_condas_base_environment_comes_after_the_projects_own(tmp_path):
    conda = venv(tmp_path / "conda", "torch-2.3.0.dist-info")
    venv(tmp_path / "project" / ".venv", "torch-2.4.0.dist-info")
    base = {"CONDA_PREFIX": str(conda), "CONDA_DEFAULT_ENV": "base"}
    assert found(tmp_path / "project", **base) == {"torch": "2.4.0"}
    assert found(tmp_path, **base) == {"torch": "2.3.0"}


def test_an_active_environment_without_any_of_the_libraries_is_passed_over(tmp_path):
    tools = venv(tmp_path / "tools", "ruff-0.17.0.dist-info")
    venv(tmp_path / "project" / ".venv", "torch-2.4.0.dist-info")
    assert found(tmp_path / "project", VIRTUAL_ENV=str(tools)) == {"torch": "2.4.0"}


def test_the_environment_of_a_repository_serves_the_projects_inside(tmp_path):
    (tmp_path / ".git").mkdir()
    venv(tmp_path / ".venv", "torch-2.4.0.dist-info")
    (tmp_path / "packages" / "one").mkdir(parents=True)
    (tmp_path / "packages" / "one" / "pyproject.toml").write_text("")
    assert found(tmp_path / "packages" / "one") == {"torch": "2.4.0"}


def test_without_any_environment_nothing_is_known_and_our_own_interpreter_is_not_asked(tmp_path):
    assert find_environment(tmp_path, None, {}) == Environment()


def test_an_active_environment_that_is_gone_is_passed_over(tmp_path):
    assert found(tmp_path, VIRTUAL_ENV=str(tmp_path / "gone")) == {}


def test_an_environment_knows_when_something_was_installed(tmp_path):
    root = venv(tmp_path / "env", "torch-2.9.1.dist-info")
    environment = find_environment(tmp_path, str(root), {})
    assert environment.is_current()
    install(root / "lib" / "python3.11" / "site-packages", "peft-0.17.1.dist-info")
    assert not environment.is_current()


def test_of_several_sources_the_first_that_knows_a_library_is_right():
    joined = layered(Versions.parse("torch=2.9.1"), Versions.parse("torch=2.0,peft=0.17.1"))
    assert joined == Versions.parse("torch=2.9.1,peft=0.17.1")
