"""Prompts, as a client sees them on the wire."""

from typing import Literal

import pytest

from dragoman import (
    Audio,
    BlockingContext,
    Context,
    DefinitionError,
    Image,
    InvalidParams,
    Prompt,
    RpcError,
    Server,
    prompt,
    types,
)
from scenarios.wire import EVERY_ERA, ask


def get(server, name, arguments=None, era="handshake"):
    given = {} if arguments is None else {"arguments": arguments}
    return ask(server, "prompts/get", {"name": name, **given}, era)


def messages(server, name, arguments=None, era="handshake"):
    return get(server, name, arguments, era)["result"]["messages"]


def listed(server, era="handshake"):
    return ask(server, "prompts/list", era=era)["result"]["prompts"]


def from_the_user(text):
    return {"role": "user", "content": {"type": "text", "text": text}}


class CodeReview(Prompt):
    """Review code."""

    def render(self, code: str, tone: Literal["terse", "kind"] = "kind") -> str:
        return f"Review in a {tone} tone: {code}"


def defined_as_a_class():
    return Server(prompts=[CodeReview])


def defined_as_an_object():
    def code_review(code: str, tone: Literal["terse", "kind"] = "kind") -> str:
        """Review code."""
        return f"Review in a {tone} tone: {code}"

    return Server(prompts=[Prompt.define(code_review)])


def defined_by_the_free_decorator():
    @prompt
    async def code_review(code: str, tone: Literal["terse", "kind"] = "kind") -> str:
        """Review code."""
        return f"Review in a {tone} tone: {code}"

    return Server(prompts=[code_review])


def defined_on_the_server():
    server = Server()

    @server.prompt(inline=True)
    def code_review(code: str, tone: Literal["terse", "kind"] = "kind") -> str:
        """Review code."""
        return f"Review in a {tone} tone: {code}"

    assert code_review("x") == "Review in a kind tone: x"
    return server


@pytest.mark.covers("PRM-01", "PRM-02", "SRV-28")
@EVERY_ERA
@pytest.mark.parametrize(
    "make", [defined_as_a_class, defined_as_an_object, defined_by_the_free_decorator, defined_on_the_server]
)
def test_every_way_to_define_a_prompt_lists_and_renders_alike(make, era):
    server = make()
    assert listed(server, era) == [
        {
            "name": "code_review",
            "description": "Review code.",
            "arguments": [{"name": "code", "required": True}, {"name": "tone"}],
        }
    ]
    response = get(server, "code_review", {"code": "1+1", "tone": "terse"}, era)
    assert response["result"]["messages"] == [from_the_user("Review in a terse tone: 1+1")]
    assert response["result"]["description"] == "Review code."


@pytest.mark.covers("PRM-03", "PRM-04")
def test_a_prompt_lists_its_title_icons_meta_and_declared_arguments():
    server = Server()

    @server.prompt(
        name="greeting",
        title="Greet",
        description="Says hello",
        meta={"example.com/since": 2},
        icons=[{"src": "https://example.com/i.png"}],
        arguments=[{"name": "who", "title": "Who", "description": "Whom to greet", "required": True}, {"name": "how"}],
    )
    def greet(who: str, how: str = "warmly") -> str:
        return f"Greet {who} {how}"

    declared = {"name": "who", "title": "Who", "description": "Whom to greet", "required": True}
    assert listed(server) == [
        {
            "name": "greeting",
            "title": "Greet",
            "description": "Says hello",
            "icons": [{"src": "https://example.com/i.png"}],
            "_meta": {"example.com/since": 2},
            "arguments": [declared, {"name": "how"}],
        }
    ]
    assert messages(server, "greeting", {"who": "Ada"}) == [from_the_user("Greet Ada warmly")]


@pytest.mark.covers("PRM-11")
def test_a_prompt_without_arguments_lists_none():
    server = Server()
    server.prompt(name="plain")(lambda: "hello")
    assert listed(server) == [{"name": "plain"}]


@pytest.mark.covers("PRM-04")
def test_the_docstring_describes_the_arguments():
    server = Server()

    @server.prompt
    def greet(who: str) -> str:
        """Greets.

        Args:
            who: Whom to greet.
        """
        return who

    assert listed(server)[0]["arguments"] == [{"name": "who", "description": "Whom to greet.", "required": True}]


@pytest.mark.parametrize("declared", [["who", "extra"], []], ids=["more than taken", "less than required"])
def test_declared_arguments_that_the_function_does_not_take_are_refused_at_registration(declared):
    with pytest.raises(DefinitionError, match="name them alike"):

        @prompt(arguments=[{"name": name} for name in declared])
        def greet(who: str) -> str:
            return who


def test_a_function_of_any_arguments_takes_those_that_are_declared():
    server = Server()

    @server.prompt(arguments=[{"name": "who", "required": True}])
    def greet(**given: str) -> str:
        return ",".join(f"{name}={value}" for name, value in given.items())

    assert messages(server, "greet", {"who": "Ada", "how": "warmly"}) == [from_the_user("who=Ada,how=warmly")]
    assert get(server, "greet")["error"] == {"code": -32602, "message": "Missing required arguments: who"}


@pytest.mark.covers("PRM-06")
@EVERY_ERA
@pytest.mark.parametrize("arguments", [None, {}, {"middle": "m"}])
def test_missing_arguments_are_all_named(era, arguments):
    server = Server()
    called = []

    @server.prompt
    def join(first: str, last: str, middle: str = "") -> str:
        called.append(1)
        return first + middle + last

    response = get(server, "join", arguments, era)
    assert response["error"] == {"code": -32602, "message": "Missing required arguments: first, last"}
    assert called == []


@pytest.mark.covers("PRM-06")
def test_what_is_declared_as_required_is_required_whatever_the_function_has_as_default():
    server = Server()

    @server.prompt(arguments=[{"name": "who", "required": True}, {"name": "how", "required": True}, {"name": "when"}])
    def greet(who: str = "you", how: str = "warmly", when: str = "now") -> str:
        return f"{who} {how} {when}"

    assert get(server, "greet", {"when": "then"})["error"]["message"] == "Missing required arguments: who, how"
    assert messages(server, "greet", {"who": "Ada", "how": "well"}) == [from_the_user("Ada well now")]


def test_an_argument_that_does_not_fit_its_type_is_refused_and_named():
    error = get(defined_as_a_class(), "code_review", {"code": "x", "tone": "rude"})["error"]
    assert error["code"] == -32602
    assert "tone" in error["message"]


def test_an_argument_arrives_in_the_type_of_its_parameter():
    server = Server()

    @server.prompt
    def repeat(times: int) -> str:
        return "hello " * times

    assert messages(server, "repeat", {"times": "2"}) == [from_the_user("hello hello ")]


@pytest.mark.parametrize("arguments", ["text", 3, ["a"]])
def test_arguments_that_are_no_object_are_refused(arguments):
    server = Server()

    @server.prompt(arguments=[{"name": "who", "required": True}])
    def greet(who: str = "you") -> str:
        return who

    assert get(server, "greet", arguments)["error"]["code"] == -32602


@pytest.mark.covers("PRM-07")
@EVERY_ERA
def test_an_unknown_prompt_is_named_in_the_refusal(era):
    assert get(Server(), "nobody", era=era)["error"] == {"code": -32602, "message": "Unknown prompt: nobody"}


@pytest.mark.covers("PRM-08")
@pytest.mark.parametrize("given", [{}, {"arguments": None}, {"arguments": {}}], ids=["absent", "null", "empty"])
def test_a_prompt_is_rendered_without_arguments_however_their_absence_is_said(given):
    server = Server()

    @server.prompt
    def greet(who: str = "you") -> str:
        return who

    response = ask(server, "prompts/get", {"name": "greet", **given})
    assert response["result"]["messages"] == [from_the_user("you")]


@pytest.mark.covers("PRM-05", "PRM-10")
@pytest.mark.parametrize(
    ("returned", "sent"),
    [
        ("hello", [from_the_user("hello")]),
        (["one", "two"], [from_the_user("one"), from_the_user("two")]),
        (None, []),
        ([], []),
        (
            types.PromptMessage("assistant", types.TextContent("hi")),
            [{"role": "assistant", "content": {"type": "text", "text": "hi"}}],
        ),
        (
            ["ask", {"role": "assistant", "content": "answer"}],
            [from_the_user("ask"), {"role": "assistant", "content": {"type": "text", "text": "answer"}}],
        ),
        (
            {"role": "assistant", "content": {"type": "text", "text": "answer"}},
            [{"role": "assistant", "content": {"type": "text", "text": "answer"}}],
        ),
        (
            Image(b"png", "image/png"),
            [{"role": "user", "content": {"type": "image", "data": "cG5n", "mimeType": "image/png"}}],
        ),
        (
            Audio(b"wav"),
            [{"role": "user", "content": {"type": "audio", "data": "d2F2", "mimeType": "audio/wav"}}],
        ),
        (
            types.ResourceContents("doc://1", "text/plain", text="body"),
            [
                {
                    "role": "user",
                    "content": {
                        "type": "resource",
                        "resource": {"uri": "doc://1", "mimeType": "text/plain", "text": "body"},
                    },
                }
            ],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_prompt_returns_becomes_messages(returned, sent):
    server = Server()
    server.prompt(name="any")(lambda: returned)
    assert messages(server, "any") == sent


@pytest.mark.covers("PRM-05")
def test_a_prompt_may_return_the_whole_result():
    server = Server()
    result = types.GetPromptResult(
        [types.PromptMessage("user", types.TextContent("hi"))], description="special", meta={"example.com/a": 1}
    )
    server.prompt(name="whole")(lambda: result)
    for _ in range(2):
        assert ask(server, "prompts/get", {"name": "whole"})["result"] == {
            "messages": [from_the_user("hi")],
            "description": "special",
            "_meta": {"example.com/a": 1},
        }
    assert ask(server, "prompts/get", {"name": "whole"}, "stateless")["result"]["resultType"] == "complete"
    assert result.result_type is None
    assert result.meta == {"example.com/a": 1}


@pytest.mark.covers("PRM-12", "SRV-30")
def test_a_prompt_is_given_the_context_that_it_asks_for():
    server = Server(server_context={"tenant": "acme"})

    @server.prompt
    async def waiting(who: str, ctx: Context) -> str:
        return f"{who} of {ctx.server_context['tenant']}, request {ctx.request_id}"

    @server.prompt
    def blocking(ctx: BlockingContext, who: str) -> str:
        return f"{who} of {ctx.server_context['tenant']}, version {ctx.client.version.name}"

    assert messages(server, "waiting", {"who": "Ada"}, "none") == [from_the_user("Ada of acme, request 1")]
    assert messages(server, "blocking", {"who": "Ada"}, "stateless") == [
        from_the_user("Ada of acme, version 2026-07-28")
    ]
    assert [entry["arguments"] for entry in listed(server)] == [[{"name": "who", "required": True}]] * 2


@pytest.mark.covers("SRV-23")
@EVERY_ERA
def test_a_prompt_that_fails_says_nothing_of_why_and_is_reported(era, caplog):
    server = Server()

    @server.prompt
    async def broken() -> str:
        raise LookupError("the password is hunter2")

    assert get(server, "broken", era=era)["error"] == {"code": -32603, "message": "Internal error"}
    (record,) = caplog.records
    assert record.name == "dragoman.server"
    assert "hunter2" in str(record.exc_info[1])


@pytest.mark.covers("RPC-12")
def test_an_error_that_a_prompt_raises_for_the_client_reaches_it_unchanged(caplog):
    server = Server()

    @server.prompt
    def refusing() -> str:
        raise RpcError(-31999, "Out of words", {"left": 0})

    @server.prompt
    def picky() -> str:
        raise InvalidParams("Not today")

    assert get(server, "refusing")["error"] == {"code": -31999, "message": "Out of words", "data": {"left": 0}}
    assert get(server, "picky")["error"] == {"code": -32602, "message": "Not today"}
    assert caplog.records == []


@pytest.mark.covers("SRV-26")
@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2024-11-05", {"name", "description"}),
        ("2025-03-26", {"name", "description"}),
        ("2025-06-18", {"name", "description", "title", "_meta"}),
        ("2025-11-25", {"name", "description", "title", "_meta", "icons"}),
        ("2026-07-28", {"name", "description", "title", "_meta", "icons"}),
    ],
)
def test_a_listed_prompt_has_what_the_version_knows(version, names):
    server = Server()
    server.prompt(
        name="p", title="P", description="d", meta={"a/b": 1}, icons=[types.Icon("https://example.com/i.png")]
    )(lambda: "hi")
    assert set(listed(server, version)[0]) == names


def test_two_prompts_of_one_name_are_refused():
    server = Server(prompts=[CodeReview])
    with pytest.raises(DefinitionError, match="code_review"):
        server.add_prompt(CodeReview)
