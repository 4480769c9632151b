"""`[tool.remat]` is read in full, and every mistake in it is named with what is allowed."""

from __future__ import annotations

from packaging.version import Version

from remat.lint.rule import Option
from remat.settings import Settings, read_settings, unknown_library

RULES = {
    "checkpoint-with-kv-cache": (Option("report", ("default", "harm", "always"), "What is reported."),),
    "checkpoint-skips-layers": (),
    "unused-suppression": (),
}


def read(**table):
    settings, problems = read_settings({key.replace("_", "-"): value for key, value in table.items()}, RULES)
    return settings, [f"{problem.key}: {problem.message}" for problem in problems]


def test_an_empty_table_gives_the_defaults():
    assert read() == (Settings(), [])


def test_every_key_is_read():
    settings, problems = read(
        select=["checkpoint-skips-layers", "checkpoint-with-kv-cache"],
        ignore=["checkpoint-skips-layers"],
        exclude=["legacy", "vendor/**"],
        versions={"torch": "2.9.1", "flash_attn": "2.8"},
        checkpoint_with_kv_cache={"report": "always"},
    )
    assert problems == []
    assert settings.enabled("checkpoint-with-kv-cache")
    assert not settings.enabled("checkpoint-skips-layers")
    assert not settings.enabled("unused-suppression")
    assert settings.exclude == ("legacy", "vendor/**")
    assert settings.versions.known == {"torch": Version("2.9.1"), "flash-attn": Version("2.8")}
    assert settings.option("checkpoint-with-kv-cache", "report", "default") == "always"


def test_an_unknown_key_is_named_with_the_nearest_known_one():
    assert read(selct=[])[1] == ['selct: unknown key "selct"; did you mean "select"?']


def test_an_unknown_key_that_is_like_nothing_is_named_with_all_that_is_allowed():
    (problem,) = read(zzz=1)[1]
    assert "allowed: checkpoint-skips-layers, checkpoint-with-kv-cache, exclude, ignore" in problem


def test_an_unknown_rule_is_named_with_the_nearest_one_and_the_others_still_hold():
    settings, problems = read(ignore=["checkpoint-skip-layers", "unused-suppression"])
    assert problems == ['ignore: unknown rule "checkpoint-skip-layers"; did you mean "checkpoint-skips-layers"?']
    assert settings.ignore == {"unused-suppression"}


def test_a_select_without_any_known_rule_keeps_the_default_instead_of_turning_all_off():
    assert read(select=["nonsense"])[0].select is None


def test_an_empty_select_turns_every_rule_off():
    assert not read(select=[])[0].enabled("checkpoint-skips-layers")


def test_a_value_of_the_wrong_type_keeps_the_default_and_is_shown_as_written():
    settings, problems = read(ignore="unused-suppression", exclude=["ok", 7, True])
    assert problems == [
        'ignore: expected a list of strings, got "unused-suppression"',
        "exclude: expected a string, got 7",
        "exclude: expected a string, got true",
    ]
    assert settings.ignore == frozenset()
    assert settings.exclude == ("ok",)


def test_versions_that_are_no_versions_are_named_and_the_others_hold():
    settings, problems = read(versions={"torch": 2.9, "peft": "latest", "trl": "0.24"})
    assert problems == [
        'versions.torch: expected a version in quotes such as "2.9.1", got 2.9',
        'versions.peft: expected a version such as "2.9.1", got "latest"',
    ]
    assert settings.versions.known == {"trl": Version("0.24")}


def test_versions_that_are_no_table_are_named():
    assert read(versions="torch=2.9")[1] == [
        'versions: expected a table such as {torch = "2.9.1"}, got "torch=2.9"',
    ]


def test_a_library_that_no_rule_knows_is_named():
    assert read(versions={"pytorch": "2.9"})[1] == [
        'versions.pytorch: unknown library "pytorch"; its distribution is called "torch"',
    ]
    assert unknown_library("transformer") == 'unknown library "transformer"; did you mean "transformers"?'


def test_a_wrong_option_of_a_rule_is_named_with_the_allowed_values():
    assert read(checkpoint_with_kv_cache={"report": "never"})[1] == [
        'checkpoint-with-kv-cache.report: expected one of "default", "harm", "always", got "never"',
    ]
    assert read(checkpoint_with_kv_cache={"reports": "harm"})[1] == [
        'checkpoint-with-kv-cache.reports: unknown option "reports"; did you mean "report"?',
    ]
    assert read(checkpoint_skips_layers={"report": "harm"})[1] == [
        'checkpoint-skips-layers.report: unknown option "report"; it has none',
    ]
    assert read(checkpoint_skips_layers=True)[1] == [
        "checkpoint-skips-layers: expected a table [tool.remat.checkpoint-skips-layers], got true",
    ]


def test_an_option_given_a_list_is_named_and_does_not_break_the_reading():
    assert "expected one of" in read(checkpoint_with_kv_cache={"report": ["harm"]})[1][0]
