"""Which calls a policy allows, has asked about, and denies."""

import asyncio
import itertools
import logging
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman import types
from dragoman.chat import Policy

ROW = r"^\|([^|\n]+)\|([^|\n]+)\|$"
NAMES = ("web__delete_page", "delete_page", "web__delete_page")


def judge(policy, names=NAMES, arguments=None, *, trusted=False, **hints):
    tool = SimpleNamespace(name=names[1], annotations=types.ToolAnnotations(**hints))
    return asyncio.run(policy.judge(names, tool, arguments or {}, trusted=trusted))


@pytest.mark.covers("CHAT-07", "HIL-08")
def test_the_strictest_rule_that_fits_decides():
    assert judge(Policy(allow=["*"])) == "allow"
    assert judge(Policy(allow=["*"], ask=["delete_*"])) == "ask"
    assert judge(Policy(allow=["*"], ask=["delete_*"], deny=["web__*"])) == "deny"
    assert judge(Policy(deny=["shell__*"], ask=["other"])) == "allow"


@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
def test_what_no_rule_fits_is_decided_by_the_default(default):
    assert judge(Policy(allow=["nothing"], default=default)) == default


def documented_defaults():
    """Read the table of defaults in docs/chat.md: the options of each row, and the verdict."""
    page = (Path(__file__).parents[3] / "docs" / "chat.md").read_text(encoding="utf-8")
    table = page.partition("| options of the policy |")[2].partition("\n\n")[0]
    rows = re.findall(ROW, table, re.MULTILINE)[1:]
    return [(frozenset(re.findall(r"`(\w+)`", options)), verdict.strip()) for options, verdict in rows]


def test_table_of_defaults_names_every_combination_once():
    rules = ("allow", "ask", "deny")
    combinations = [frozenset(names) for size in range(4) for names in itertools.combinations(rules, size)]
    assert Counter(options for options, _ in documented_defaults()) == Counter([*combinations, frozenset({"default"})])


@pytest.mark.parametrize("source", [["another_tool"], [], ()], ids=["rules", "empty list", "empty tuple"])
def test_defaults_are_those_of_the_documentation(source):
    for options, verdict in documented_defaults():
        if "default" in options:
            assert verdict == "the value of `default`"
        elif source or options == {"allow"}:  # an empty `ask` or `deny` has no effect
            assert judge(Policy(**dict.fromkeys(options, source))) == verdict, sorted(options)


@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
@pytest.mark.parametrize("options", [options for options, _ in documented_defaults() if "default" not in options])
def test_given_default_decides_in_every_combination(options, default):
    assert judge(Policy(**dict.fromkeys(options, "another_tool"), default=default)) == default


def test_allow_list_denies_everything_that_it_does_not_list():
    policy = Policy(allow=["read_*"])
    assert judge(policy, ("read_page", "read_page")) == "allow"
    assert judge(policy, ("delete", "delete")) == "deny"
    assert judge(Policy(allow=["read_*"], ask=["*"]), ("delete", "delete")) == "ask"


def test_a_default_that_is_no_verdict_is_refused():
    with pytest.raises(ValueError, match="maybe"):
        Policy(default="maybe")


@pytest.mark.parametrize("kind", ["allow", "ask", "deny"])
def test_one_pattern_is_not_taken_for_a_list_of_letters(kind):
    other = "deny" if kind == "allow" else "allow"
    assert judge(Policy(**{kind: "shell__*"}, default=other)) == other
    assert judge(Policy(**{kind: "web__*"}, default=other)) == kind


@pytest.mark.parametrize("rule", [3, None, ["nested"]])
def test_what_is_no_rule_is_refused(rule):
    with pytest.raises(TypeError, match="A rule is a pattern"):
        Policy(deny=[rule])


@pytest.mark.covers("CHAT-07", "HIL-07")
def test_a_rule_may_be_a_function_of_the_tool_and_its_arguments():
    def far(tool, arguments):
        return tool.name == "delete_page" and arguments["days"] > 3

    async def near(tool, arguments):
        return arguments["days"] <= 3

    policy = Policy(deny=far, ask=[near])
    assert judge(policy, arguments={"days": 4}) == "deny"
    assert judge(policy, arguments={"days": 3}) == "ask"


@pytest.mark.covers("CHAT-08")
def test_a_rule_that_fails_denies(caplog):
    with caplog.at_level(logging.ERROR, "dragoman.chat"):
        assert judge(Policy(allow=lambda tool, arguments: arguments["missing"])) == "deny"
    assert "the call of web__delete_page is denied" in caplog.text


@pytest.mark.parametrize("value", ["only on weekdays", None, 1, object()])
@pytest.mark.parametrize("kind", ["allow", "ask", "deny"])
def test_rule_that_returns_no_boolean_denies(kind, value, caplog):
    with caplog.at_level(logging.ERROR, "dragoman.chat"):
        assert judge(Policy(**{kind: lambda tool, arguments: value}, default="allow")) == "deny"
    assert f"must return True or False, not {type(value).__name__}" in caplog.text


def test_a_rule_cannot_change_the_arguments():
    def clear(tool, arguments):
        arguments["list"].clear()
        return False

    arguments = {"list": [1]}
    assert judge(Policy(ask=clear), arguments=arguments) == "allow"
    assert arguments == {"list": [1]}


@pytest.mark.covers("CHAT-09")
def test_annotations_count_only_for_trusted_servers_and_only_when_wanted():
    policy = Policy(annotations=True, default="deny")
    assert judge(policy, trusted=True, read_only_hint=True) == "allow"
    assert judge(policy, trusted=True, destructive_hint=True) == "ask"
    assert judge(policy, trusted=True) == "deny"
    assert judge(policy, trusted=False, read_only_hint=True) == "deny"
    assert judge(Policy(default="deny"), trusted=True, read_only_hint=True) == "deny"
    assert judge(Policy(annotations=True, ask=["*"]), trusted=True, read_only_hint=True) == "ask"
