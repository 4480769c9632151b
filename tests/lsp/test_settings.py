"""Settings, versions and neighbouring files: what holds for a file, and that changes are seen."""

import asyncio
import re

from lsprotocol import types

RULE = "checkpoint-without-use-reentrant"
TEXT = "from torch.utils.checkpoint import checkpoint\ny = checkpoint(f, x)\n"
IGNORE = f'[tool.remat]\nignore = ["{RULE}"]\n'


def none(found):
    return not found


def some(found):
    return bool(found)


def changed(editor, *names):
    events = [types.FileEvent(editor.uri(name), types.FileChangeType.Changed) for name in names]
    editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(events))


def environment(folder, **versions):
    """A virtual environment of which only the names of its packages exist."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    for name, version in versions.items():
        (packages / f"{name}-{version}.dist-info").mkdir()
    (folder / "bin").mkdir()
    python = folder / "bin" / "python"
    python.write_text("")
    return str(python)


async def test_tool_remat_of_the_nearest_pyproject_holds(connect, tmp_path):
    (tmp_path / "pyproject.toml").write_text(IGNORE)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "pyproject.toml").write_text("[tool.remat]\n")
    async with connect(tmp_path) as editor:
        editor.open("a.py", TEXT)
        editor.open("sub/a.py", TEXT)
        assert await editor.findings("a.py") == []
        assert len(await editor.findings("sub/a.py")) == 1


async def test_a_changed_pyproject_is_seen_at_once_where_files_are_watched(connect, tmp_path):
    for pull in (True, False):
        (tmp_path / "pyproject.toml").write_text("[tool.remat]\n")
        async with connect(tmp_path, pull=pull) as editor:
            await editor.until(lambda: editor.registered, "the wish to be told about files")
            editor.open("a.py", TEXT)
            assert len(await editor.findings("a.py")) == 1
            (tmp_path / "pyproject.toml").write_text(IGNORE)
            changed(editor, "pyproject.toml")
            if pull:
                await editor.until(lambda: editor.client.diagnostic_refresh_count, "the request to ask again")
            await editor.findings_become("a.py", none)


async def test_a_file_event_that_changes_nothing_publishes_nothing(connect, tmp_path):
    async with connect(tmp_path, pull=False) as editor:
        editor.open("a.py", TEXT)
        editor.open("b.py", TEXT)
        await editor.findings("a.py")
        await editor.findings("b.py")
        count = len(editor.published)
        (tmp_path / "metrics.json").write_text("{}")
        changed(editor, "metrics.json")
        editor.replace("b.py", "y =", "z =")
        await editor.findings("b.py")
        editor.replace("b.py", "z =", "y =")
        await editor.findings("b.py")
        assert [p.uri for p in editor.published[count:]] == [editor.uri("b.py")] * 2


async def test_files_that_change_without_end_hold_nothing_up(connect, tmp_path):
    async with connect(tmp_path, pull=False) as editor:
        editor.open("a.py", TEXT)
        editor.open("b.py", TEXT)
        await editor.findings("b.py")

        async def log_metrics():
            while True:
                changed(editor, "metrics.json")
                await asyncio.sleep(0.01)

        training = asyncio.create_task(log_metrics())
        editor.replace("a.py", "y =", "z =")
        assert len(await editor.findings("a.py")) == 1
        (tmp_path / "pyproject.toml").write_text(IGNORE)
        await editor.findings_become("b.py", none)
        training.cancel()


async def test_a_changed_pyproject_is_seen_at_the_next_keystroke_where_they_are_not(connect, tmp_path):
    async with connect(tmp_path, watched=False) as editor:
        assert editor.registered == []
        editor.open("a.py", TEXT)
        assert len(await editor.findings("a.py")) == 1
        (tmp_path / "pyproject.toml").write_text(IGNORE)

        async def type_on(found):
            editor.replace("a.py", "y =", "yy =")
            return found

        for _ in range(200):
            await type_on(None)
            if not await editor.findings("a.py"):
                break
        else:
            raise AssertionError("the settings were never read again")


async def test_an_invalid_setting_is_named_in_the_pyproject_and_the_analysis_goes_on(connect, tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\nname = "x"\n\n[tool.remat]\nselect = ["checkpoint-without-use-reentrnt"]\n', "utf-8")
    async with connect(tmp_path) as editor:
        editor.open("a.py", TEXT)
        await editor.findings_become("a.py", some)
        await editor.until(lambda: [p for p in editor.published if p.uri == path.as_uri()], "the problem")
        (problem,) = [p for p in editor.published if p.uri == path.as_uri()][-1].diagnostics
        assert problem.range.start == types.Position(4, 0)
        assert "did you mean" in problem.message
        assert RULE in problem.message
        path.write_text("[tool.remat]\n")
        changed(editor, "pyproject.toml")
        await editor.until(
            lambda: [p for p in editor.published if p.uri == path.as_uri()][-1].diagnostics == [], "none"
        )


async def test_broken_toml_is_shown_on_its_line(connect, tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.remat]\nignore = [\n\n[other]\n")
    async with connect(tmp_path) as editor:
        editor.open("a.py", TEXT)
        assert len(await editor.findings("a.py")) == 1
        await editor.until(lambda: [p for p in editor.published if p.uri == path.as_uri()], "the problem")
        (problem,) = [p for p in editor.published if p.uri == path.as_uri()][-1].diagnostics
        assert problem.severity is types.DiagnosticSeverity.Error
        assert problem.range.start.line > 0


async def test_an_excluded_file_is_left_alone(connect, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.remat]\nexclude = ["third_party"]\n')
    async with connect(tmp_path) as editor:
        editor.open("third_party/model.py", TEXT)
        editor.open("own.py", TEXT)
        assert await editor.findings("third_party/model.py") == []
        assert len(await editor.findings("own.py")) == 1


async def test_the_editor_leaves_alone_what_the_command_line_does(connect, tmp_path):
    (tmp_path / ".gitignore").write_text("generated/\n")
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    async with connect(tmp_path) as editor:
        for name in ("generated/a.py", "env/a.py", "build/a.py"):
            editor.open(name, TEXT)
            assert await editor.findings(name) == []
        (tmp_path / ".gitignore").write_text("build/\n")
        changed(editor, ".gitignore")
        await editor.findings_become("generated/a.py", some)


async def test_two_roots_have_their_own_settings_and_interpreters(connect, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "pyproject.toml").write_text(IGNORE)
    (two / "pyproject.toml").write_text("[tool.remat]\n")
    pythons = {
        one.as_uri(): environment(tmp_path / "env1", torch="2.0.1"),
        two.as_uri(): environment(tmp_path / "env2", torch="2.9.1"),
    }
    options = {"interpreter": None, "interpreters": pythons, "settings": {"logLevel": "info"}}
    async with connect(tmp_path, roots=[one, two], options=options) as editor:
        editor.open("one/a.py", TEXT)
        editor.open("two/a.py", TEXT)
        assert await editor.findings("one/a.py") == []
        (found,) = await editor.findings("two/a.py")
        assert "torch 2.9.1" in found.message
        (one / "pyproject.toml").write_text("")
        changed(editor, "one/pyproject.toml")
        await editor.findings_become("one/a.py", some)
        (found,) = await editor.findings("one/a.py")
        assert "torch 2.0.1" in found.message


async def test_a_root_that_is_added_counts(connect, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    (two / "build").mkdir(parents=True)
    one.mkdir()
    async with connect(tmp_path, roots=[one]) as editor:
        editor.open("two/build/a.py", TEXT)
        assert len(await editor.findings("two/build/a.py")) == 1  # belongs to no root: not known to be a product
        event = types.WorkspaceFoldersChangeEvent([types.WorkspaceFolder(two.as_uri(), "two")], [])
        editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
        await editor.findings_become("two/build/a.py", none)


async def test_another_interpreter_is_believed(connect, tmp_path):
    options = {"interpreter": environment(tmp_path / "env1", torch="2.0.1")}
    async with connect(tmp_path, options=options) as editor:
        editor.open("a.py", TEXT)
        (found,) = await editor.findings("a.py")
        assert "torch 2.0.1" in found.message
        settings = {"settings": {"interpreter": environment(tmp_path / "env2", torch="2.9.1")}}
        editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))
        await editor.findings_become("a.py", lambda found: "torch 2.9.1" in found[0].message)


async def test_an_upgrade_of_torch_is_seen(connect, tmp_path):
    python = environment(tmp_path / "env", torch="2.0.1")
    async with connect(tmp_path, options={"interpreter": python}) as editor:
        editor.open("a.py", TEXT)
        (found,) = await editor.findings("a.py")
        assert "torch 2.0.1" in found.message
        packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
        (packages / "torch-2.0.1.dist-info").rename(packages / "torch-2.9.1.dist-info")
        editor.open("b.py", TEXT)
        editor.save("b.py")
        await editor.findings_become("a.py", lambda found: "torch 2.9.1" in found[0].message)


async def test_an_interpreter_that_does_not_exist_is_named_and_loses_nothing(connect, tmp_path):
    async with connect(tmp_path, options={"interpreter": "/no/such/python"}) as editor:
        for name in ("a.py", "b.py"):
            editor.open(name, TEXT)
            assert len(await editor.findings(name)) == 1
        await editor.until(lambda: editor.client.messages, "a message")
        (message,) = editor.client.messages
        assert "/no/such/python does not exist" in message.message
        assert message.type is types.MessageType.Warning


async def test_the_log_says_which_environment_is_believed_and_how_long_each_analysis_took(connect, tmp_path):
    options = {"interpreter": environment(tmp_path / "env", torch="2.9.1"), "settings": {"logLevel": "debug"}}
    async with connect(tmp_path, options=options) as editor:
        editor.open("a.py", TEXT)
        await editor.findings("a.py")
        said = "\n".join(m.message for m in editor.client.log_messages)
        assert re.search(r"remat [\d.]+ on Python [\d.]+; the editor is sent findings, columns are utf-16", said)
        assert re.search(rf"versions are those of {tmp_path / 'env'}.*: torch 2.9.1", said)
        assert re.search(r"a.py, version 1: 1 findings in \d+ ms", said)


async def test_settings_that_make_no_sense_are_named_in_the_log_and_keep_their_values(connect, tmp_path):
    options = {"interpreter": 3, "interpreters": "x", "settings": {"logLevel": "loud", "remat": {"logLevel": None}}}
    async with connect(tmp_path, options=options) as editor:
        editor.open("a.py", TEXT)
        assert len(await editor.findings("a.py")) == 1
        said = "\n".join(m.message for m in editor.client.log_messages)
        for part in ("remat.interpreter: expected", "remat.interpreters: expected", "remat.logLevel: expected one of"):
            assert part in said
        for settings in (None, [], "x", {"remat": None}, {"remat": {"other": {}}}):
            editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))
        editor.replace("a.py", "y =", "z =")
        assert len(await editor.findings("a.py")) == 1


async def test_a_neighbouring_configuration_takes_the_fix_away_once_it_is_saved(connect, tmp_path):
    text = TEXT + "from peft import get_peft_model\n"
    (tmp_path / "pyproject.toml").write_text("[tool.remat]\n")
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "lora.py").write_text("from peft import get_peft_model\n")
    async with connect(tmp_path) as editor:
        editor.open("a.py", "import lora\n" + TEXT)
        await editor.findings_become("a.py", lambda found: "fix" in found[0].data)
        (tmp_path / "ds_config.json").write_text('{"zero_optimization": {"stage": 3}}')
        changed(editor, "ds_config.json")
        await editor.findings_become("a.py", lambda found: "fix" not in found[0].data)
