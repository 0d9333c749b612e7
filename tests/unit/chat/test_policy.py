"""Which calls a policy allows, has asked about, and denies."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from dragoman import types
from dragoman.chat import Policy

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
    assert "which denies the call of web__delete_page" in caplog.text


def test_a_rule_cannot_change_the_arguments():
    arguments = {"list": [1]}
    assert judge(Policy(ask=lambda tool, given: given["list"].clear()), arguments=arguments) == "allow"
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
