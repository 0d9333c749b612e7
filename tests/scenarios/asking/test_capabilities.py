"""Asking a client that cannot be asked, or only in the words of its version."""

from typing import Any

import pytest

from dragoman import (
    BlockingContext,
    Context,
    Elicit,
    InputRequired,
    ListRoots,
    Sample,
    Server,
    UrlElicitationRequired,
    types,
)
from dragoman.errors import MissingCapability
from dragoman.testing.wire import WirePeer
from scenarios.asking.test_asking import (
    CAPABILITIES,
    Name,
    User,
    converse,
    every_era,
    outcome,
    text,
)

# What the client cannot do.


QUESTIONS = {
    "elicitation.form": lambda ctx: ctx.elicit("Who?", Name),
    "elicitation.url": lambda ctx: ctx.elicit_url("Visit", "https://example.com"),
    "sampling": lambda ctx: ctx.sample("Write"),
    "sampling.tools": lambda ctx: ctx.sample("Write", tool_choice={"mode": "auto"}),
    "roots": lambda ctx: ctx.list_roots(),
}


def nested(path: str) -> types.Json:
    first, _, rest = path.partition(".")
    return {first: nested(rest) if rest else {}}


@every_era
@pytest.mark.covers("SMP-03", "SMP-04", "ELI-02", "ROO-02", "MRT-04", "MRT-08")
@pytest.mark.parametrize("capability", QUESTIONS)
async def test_a_tool_cannot_ask_what_the_client_did_not_declare(era, capability):
    async def handler(ctx: Context) -> str:
        return str(await QUESTIONS[capability](ctx))

    response = await outcome(handler, era, capabilities={})
    if era == "stateless":
        assert response["error"]["code"] == -32021
        assert response["error"]["data"] == {"requiredCapabilities": nested(capability)}
    else:
        assert response["result"]["isError"]
        assert capability in text(response)


@every_era
@pytest.mark.covers("ROO-02", "MRT-08")
async def test_a_prompt_cannot_ask_what_the_client_did_not_declare(era):
    server = Server("asking", secret="a secret of sixteen")

    @server.prompt
    async def where(ctx: Context) -> str:
        return str(await ctx.list_roots())

    async with WirePeer(server, era) as peer:
        error = (await peer.request("prompts/get", {"name": "where"}))["error"]
    assert error["code"] == (-32021 if era == "stateless" else -32603)


@every_era
@pytest.mark.covers("MRT-04")
@pytest.mark.parametrize("is_explicit", [False, True])
async def test_all_that_is_missing_is_named_at_once(era, is_explicit):
    questions = {"who": Elicit("Who?", Name), "poem": Sample("Write"), "roots": ListRoots()}

    async def handler(ctx: Context) -> Any:
        return InputRequired(questions) if is_explicit else str(await ctx.ask(**questions))

    response = await outcome(handler, era, capabilities={"roots": {}})
    if era == "stateless":
        assert response["error"]["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}, "sampling": {}}}
    else:
        assert "elicitation.form, sampling" in text(response)


@pytest.mark.covers("MRT-04", "ELI-02")
@pytest.mark.parametrize(
    ("declared", "is_asked"),
    [({}, True), ({"form": {}}, True), ({"form": {}, "url": {}}, True), ({"url": {}}, False)],
)
@pytest.mark.parametrize("era", ["2025-11-25", "stateless"])
async def test_an_empty_elicitation_capability_means_forms(era, declared, is_asked):
    async def handler(ctx: Context) -> str:
        try:
            return (await ctx.elicit("Who?", Name)).content.name
        except MissingCapability:
            return "cannot"

    response = await outcome(handler, era, capabilities={"elicitation": declared})
    assert text(response) == ("Ada" if is_asked else "cannot")


@every_era
@pytest.mark.covers("SMP-04")
async def test_a_handler_may_require_a_capability_and_catch_that_it_is_missing(era):
    async def handler(ctx: Context) -> str:
        ctx.require_capability("roots")
        try:
            ctx.require_capability("sampling", "context")
        except MissingCapability as error:
            return str(error)
        return "declared"

    assert "sampling.context" in text(await outcome(handler, era))


# Pages to visit.


@pytest.mark.covers("ELI-05")
@pytest.mark.parametrize("era", ["2025-11-25", "stateless"])
async def test_a_plain_prompt_may_demand_that_a_page_is_visited(era):
    server = Server("asking", secret="a secret of sixteen")

    @server.prompt
    def locked(ctx: BlockingContext) -> str:
        if "url-1" in ctx.inputs:
            return "open"
        raise UrlElicitationRequired(
            [types.ElicitRequestParams("Visit", "url", url="https://x.org", elicitation_id="1")]
        )

    async with WirePeer(server, era, capabilities=CAPABILITIES) as peer:
        response = await converse(peer, User(), "prompts/get", {"name": "locked"})
    if era == "stateless":
        assert response["result"]["messages"][0]["content"]["text"] == "open"
    else:
        assert response["error"]["data"]["elicitations"][0]["url"] == "https://x.org"
