"""Asking the client while a request is served: one handler, the same in every era."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest

from dragoman import (
    BlockingContext,
    Configuration,
    Context,
    Elicit,
    InputRequired,
    ListRoots,
    Sample,
    Server,
    types,
)
from dragoman.testing.wire import WirePeer
from scenarios.wire import DEADLINE, text

ERAS = ["2025-06-18", "2025-11-25", "stateless"]
CAPABILITIES: types.Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}


@dataclass
class Name:
    name: str


@dataclass
class Count:
    count: int


every_era = pytest.mark.parametrize("era", ERAS)


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class User:
    """Answers what a server asks: names in the order given, counts by counting, roots and models always alike."""

    def __init__(self, *names: Any, action: str = "accept") -> None:
        self.names = list(names) or ["Ada", "Grace", "Edith"]
        self.action = action
        self.asked: list[str] = []
        self.rounds = 0

    def answer(self, asked: types.Json) -> types.Json:
        method, params = asked["method"], asked.get("params", {})
        self.asked.append(params.get("message", method))
        if method == "roots/list":
            return {"roots": [{"uri": "file:///home", "name": "home"}]}
        if method == "sampling/createMessage":
            return {"role": "assistant", "content": {"type": "text", "text": "a poem"}, "model": "poet"}
        if self.action != "accept" or params.get("mode") == "url":
            return {"action": self.action}
        fields = params["requestedSchema"]["properties"]
        asked_for = next((name for name in ("name", "value") if name in fields), None)
        return {"action": "accept", "content": {asked_for: self.names.pop(0)} if asked_for else {"count": 7}}


async def converse(peer: WirePeer, user: User, method: str, params: types.Json) -> types.Json:
    """Send a request, answer what is asked on the way, and return the response."""
    is_stateless = peer.version is not None and peer.version.stateless
    return await (_in_rounds if is_stateless else _over_the_session)(peer, user, method, params)


async def _in_rounds(peer: WirePeer, user: User, method: str, params: types.Json) -> types.Json:
    sent = params
    while True:
        response = await peer.request(method, sent)
        result = response.get("result", {})
        if result.get("resultType") != "input_required":
            return response
        user.rounds += 1
        answers = {key: user.answer(asked) for key, asked in result.get("inputRequests", {}).items()}
        sent = {**params, "inputResponses": answers, "requestState": result["requestState"]}


async def _over_the_session(peer: WirePeer, user: User, method: str, params: types.Json) -> types.Json:
    answered = asyncio.ensure_future(peer.response(peer.start(method, params)))
    while True:
        asked = asyncio.ensure_future(peer.receive())
        await asyncio.wait([answered, asked], return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            asked.cancel()
            await asyncio.wait([asked])
            return answered.result()
        message = asked.result()
        if "id" in message:
            peer.answer(message["id"], user.answer(message))


async def outcome(
    handler: Callable[..., Any], era: str, user: User | None = None, capabilities: types.Json = CAPABILITIES
) -> types.Json:
    """Call a tool made of a function, answer what it asks, and return the response."""
    server = Server("asking", secret="a secret of sixteen")
    server.tool(name="handler")(handler)
    async with WirePeer(server, era, capabilities=capabilities) as peer:
        return await converse(peer, user or User(), "tools/call", {"name": "handler"})


# The shapes of handlers.


@every_era
@pytest.mark.covers("ELI-01", "MRT-03")
async def test_two_questions_in_a_row_are_asked_one_after_the_other(era):
    async def handler(ctx: Context) -> str:
        first = await ctx.elicit("First?", Name)
        second = await ctx.elicit("Second?", Name)
        return f"{first.content.name} {second.content.name}"

    user = User()
    assert text(await outcome(handler, era, user)) == "Ada Grace"
    assert user.asked == ["First?", "Second?"]
    assert user.rounds == (2 if era == "stateless" else 0)


@every_era
@pytest.mark.covers("MRT-03")
@pytest.mark.parametrize(("name", "follows"), [("Ada", "roots/list"), ("Grace", "sampling/createMessage")])
async def test_what_is_asked_next_may_depend_on_an_answer(era, name, follows):
    async def handler(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        if answer.content.name == "Ada":
            return (await ctx.list_roots())[0].uri
        return (await ctx.sample("Write")).text

    user = User(name)
    assert text(await outcome(handler, era, user)) in ("file:///home", "a poem")
    assert user.asked == ["Who?", follows]


async def catching_exceptions(ctx: Context) -> str:
    try:
        return (await ctx.elicit("Who?", Name)).content.name
    except Exception:
        return "caught"


async def catching_cancellation(ctx: Context) -> str:
    try:
        first = (await ctx.elicit("First?", Name)).content.name
    except BaseException:
        first = "caught"
    return f"{first} {(await ctx.elicit('Second?', Name)).content.name}"


async def asking_in_finally(ctx: Context) -> str:
    try:
        first = await ctx.elicit("First?", Name)
    finally:
        second = await ctx.elicit("Second?", Name)
    return f"{first.content.name} {second.content.name}"


async def asking_in_time(ctx: Context) -> str:
    try:
        async with asyncio.timeout(DEADLINE):
            return (await ctx.elicit("Who?", Name)).content.name
    except TimeoutError:
        return "too late"


def swallowing_everything(ctx: BlockingContext) -> str:
    try:
        return ctx.elicit("Who?", Name).content.name
    except BaseException:
        return "swallowed"


@every_era
@pytest.mark.covers("ELI-10")
@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (catching_exceptions, "Ada"),
        (catching_cancellation, "Ada Grace"),
        (asking_in_finally, "Ada Grace"),
        (asking_in_time, "Ada"),
        (swallowing_everything, "Ada"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_question_is_asked_whatever_its_handler_catches(era, handler, said):
    assert text(await outcome(handler, era)) == said


@every_era
@pytest.mark.covers("MRT-02")
async def test_questions_that_are_gathered_make_one_round(era):
    async def handler(ctx: Context) -> str:
        name, roots, poem = await asyncio.gather(ctx.elicit("Who?", Name), ctx.list_roots(), ctx.sample("Write"))
        return f"{name.content.name} {roots[0].uri} {poem.text}"

    user = User()
    assert text(await outcome(handler, era, user)) == "Ada file:///home a poem"
    assert user.rounds == (1 if era == "stateless" else 0)


@every_era
@pytest.mark.covers("MRT-02")
async def test_questions_of_a_task_group_make_one_round(era):
    async def handler(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            name = group.create_task(ctx.elicit("Who?", Name))
            roots = group.create_task(ctx.list_roots())
        return f"{name.result().content.name} {roots.result()[0].uri}"

    user = User()
    assert text(await outcome(handler, era, user)) == "Ada file:///home"
    assert user.rounds == (1 if era == "stateless" else 0)


@every_era
@pytest.mark.covers("ELI-10")
async def test_a_question_may_be_shielded(era):
    async def handler(ctx: Context) -> str:
        return (await asyncio.shield(ctx.elicit("Who?", Name))).content.name

    before = asyncio.all_tasks()
    assert text(await outcome(handler, era)) == "Ada"
    assert asyncio.all_tasks() == before


@pytest.mark.covers("ELI-10")
async def test_a_question_of_a_task_that_nobody_waits_for_does_not_cancel_whoever_calls_the_server():
    kept: list[asyncio.Task[Any]] = []

    async def handler(ctx: Context) -> str:
        kept.append(asyncio.create_task(ctx.elicit("Who?", Name)))
        await asyncio.sleep(0)
        return "done"

    server = Server("asking", tools=[handler], secret="a secret of sixteen")
    meta = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: CAPABILITIES}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "handler", "_meta": meta}}
    response = await server.handle_async(message)
    await asyncio.wait(kept, timeout=DEADLINE)
    assert response["result"]["resultType"] == "input_required"
    assert kept[0].cancelled()


@pytest.mark.covers("ELI-10")
async def test_nothing_can_be_asked_once_a_stateless_request_is_answered():
    contexts: list[Context] = []

    async def handler(ctx: Context) -> str:
        contexts.append(ctx)
        return (await ctx.elicit("Who?", Name)).content.name

    assert text(await outcome(handler, "stateless")) == "Ada"
    with pytest.raises(Exception, match="The request has ended"):
        await asyncio.wait_for(contexts[-1].elicit("And?", Name), DEADLINE)


@every_era
@pytest.mark.covers("ELI-01", "ROO-01", "SMP-01")
async def test_a_plain_function_asks_without_await(era):
    def handler(ctx: BlockingContext) -> str:
        name = ctx.elicit("Who?", Name)
        answers = ctx.ask(roots=ListRoots(), poem=Sample("Write"))
        return f"{name.content.name} {answers['roots'][0].name} {answers['poem'].text}"

    user = User()
    assert text(await outcome(handler, era, user)) == "Ada home a poem"
    assert user.rounds == (2 if era == "stateless" else 0)


@every_era
@pytest.mark.covers("MRT-01")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "greeting"}),
        ("resources/read", {"uri": "names://one"}),
        ("resources/read", {"uri": "names://of/two"}),
    ],
)
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_prompts_resources_and_templates_ask_too(era, method, params, is_blocking):
    server = Server("asking", secret="a secret of sixteen")

    async def greeting(ctx: Context) -> str:
        return f"Hello {(await ctx.elicit('Who?', Name)).content.name}"

    def blocking_greeting(ctx: BlockingContext) -> str:
        return f"Hello {ctx.elicit('Who?', Name).content.name}"

    async def templated(which: str, ctx: Context) -> str:
        return await greeting(ctx)

    def blocking_templated(which: str, ctx: BlockingContext) -> str:
        return blocking_greeting(ctx)

    server.prompt(name="greeting")(blocking_greeting if is_blocking else greeting)
    server.resource("names://one")(blocking_greeting if is_blocking else greeting)
    server.resource("names://of/{which}")(blocking_templated if is_blocking else templated)
    async with WirePeer(server, era, capabilities=CAPABILITIES) as peer:
        response = await converse(peer, User(), method, params)
    assert "Hello Ada" in str(response["result"])


@every_era
@pytest.mark.covers("MRT-01")
@pytest.mark.parametrize("is_explicit", [False, True])
async def test_the_authors_own_reader_of_resources_asks_too(era, is_explicit):
    server = Server("asking", secret="a secret of sixteen")

    @server.on_read_resource
    async def read(uri: str, ctx: Context) -> Any:
        if not is_explicit:
            return f"{uri} {(await ctx.elicit('Who?', Name)).content.name}"
        if "who" not in ctx.inputs:
            return InputRequired({"who": Elicit("Who?", Name)})
        return f"{uri} {ctx.inputs['who']['content']['name']}"

    async with WirePeer(server, era, capabilities=CAPABILITIES) as peer:
        response = await converse(peer, User(), "resources/read", {"uri": "any://thing"})
    assert response["result"]["contents"][0]["text"] == "any://thing Ada"


@every_era
@pytest.mark.covers("MRT-03")
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_a_step_runs_once_however_often_its_handler_does(era, is_blocking):
    ran: list[str] = []

    def note(what: str) -> str:
        ran.append(what)
        return what

    async def note_later() -> dict[str, str]:
        return {"noted": note("later")}

    async def handler(ctx: Context) -> str:
        values = [await ctx.step("now", lambda: note("now")), await ctx.step("later", note_later)]
        await ctx.elicit("First?", Name)
        await ctx.elicit("Second?", Name)
        return str(values)

    def blocking_handler(ctx: BlockingContext) -> str:
        values = [ctx.step("now", lambda: note("now")), ctx.step("later", lambda: {"noted": note("later")})]
        ctx.elicit("First?", Name)
        ctx.elicit("Second?", Name)
        return str(values)

    response = await outcome(blocking_handler if is_blocking else handler, era)
    assert text(response) == "['now', {'noted': 'later'}]"
    assert ran == ["now", "later"]


@every_era
@pytest.mark.parametrize("is_blocking", [False, True], ids=["async", "blocking"])
async def test_a_step_keeps_its_type(era, is_blocking):
    async def handler(ctx: Context) -> str:
        name = await ctx.step("name", lambda: Name("Ada"), result_type=Name)
        await ctx.elicit("Go on?", Count)
        return name.name

    def blocking_handler(ctx: BlockingContext) -> str:
        name = ctx.step("name", lambda: Name("Ada"), result_type=Name)
        ctx.elicit("Go on?", Count)
        return name.name

    assert text(await outcome(blocking_handler if is_blocking else handler, era)) == "Ada"


@every_era
async def test_a_step_that_json_has_no_type_for_is_refused_with_the_remedy(era):
    async def handler(ctx: Context) -> str:
        with pytest.raises(TypeError, match=r"step\('name', \.\.\., result_type=Name\)"):
            await ctx.step("name", lambda: Name("Ada"))
        return "refused"

    assert text(await outcome(handler, era)) == "refused"


@every_era
@pytest.mark.covers("MRT-02")
async def test_several_questions_are_asked_at_once_and_answered_by_name(era):
    async def handler(ctx: Context) -> str:
        answers = await ctx.ask(who=Elicit("Who?", Name), many=Elicit("How many?", Count), roots=ListRoots())
        return f"{answers['who'].content.name} {answers['many'].content.count} {len(answers['roots'])}"

    user = User()
    assert text(await outcome(handler, era, user)) == "Ada 7 1"
    assert user.rounds == (1 if era == "stateless" else 0)


@every_era
@pytest.mark.covers("MRT-03")
async def test_a_question_with_a_key_is_found_by_it_in_whatever_order_it_is_asked(era):
    runs: list[int] = []

    async def handler(ctx: Context) -> str:
        runs.append(1)
        order = ["b", "a"] if len(runs) > 1 else ["a", "b"]
        answers = {key: await ctx.elicit(f"{key}?", Name, key=key) for key in order}
        return f"{answers['a'].content.name} {answers['b'].content.name}"

    user = User()
    response = await outcome(handler, era, user)
    assert text(response) == "Ada Grace"


# Asking in so many words.


@every_era
@pytest.mark.covers("MRT-01", "MRT-03", "MRT-08")
async def test_a_handler_that_returns_what_it_needs_runs_again_with_the_answers_and_its_state(era):
    async def handler(ctx: Context) -> Any:
        state = ctx.state or {"names": []}
        if "who" in ctx.inputs:
            state["names"].append(ctx.inputs["who"]["content"]["name"])
        if len(state["names"]) < 3:
            return InputRequired({"who": Elicit("Who?", Name)}, state=state)
        return " ".join(state["names"])

    user = User()
    assert text(await outcome(handler, era, user)) == "Ada Grace Edith"
    assert user.asked == ["Who?"] * 3


@every_era
@pytest.mark.covers("MRT-08")
async def test_a_request_asks_in_at_most_ten_rounds(era):
    async def handler(ctx: Context) -> Any:
        return InputRequired({"roots": ListRoots()}, state=(ctx.state or 0) + 1)

    user = User()
    error = (await outcome(handler, era, user))["error"]
    assert error["code"] == -32603
    assert "at most 10 rounds" in error["message"]
    assert len(user.asked) == 10


@every_era
@pytest.mark.covers("MRT-01")
async def test_a_handler_may_ask_to_be_run_again_with_its_state_alone(era):
    def handler(ctx: BlockingContext) -> Any:
        return "done" if ctx.state == {"seen": True} else InputRequired(state={"seen": True})

    assert text(await outcome(handler, era)) == "done"


@every_era
@pytest.mark.covers("MRT-09")
async def test_what_a_tool_asks_is_not_compared_with_its_output_schema(era):
    server = Server(
        "asking", secret="a secret of sixteen", configuration=Configuration(validate_tool_call_results=True)
    )

    @server.tool
    async def handler(ctx: Context) -> Count | InputRequired:
        if "many" not in ctx.inputs:
            return InputRequired({"many": Elicit("How many?", Count)})
        return Count(ctx.inputs["many"]["content"]["count"])

    async with WirePeer(server, era, capabilities=CAPABILITIES) as peer:
        response = await converse(peer, User(), "tools/call", {"name": "handler"})
    assert response["result"]["structuredContent"] == {"count": 7}


@pytest.mark.covers("MRT-02", "MRT-07")
async def test_a_stateless_request_that_asks_is_answered_with_what_is_required():
    async def handler(ctx: Context) -> str:
        return str(await ctx.ask(who=Elicit("Who?", Name), roots=ListRoots()))

    server = Server("asking", tools=[handler], secret="a secret of sixteen")
    async with WirePeer(server, "stateless", capabilities=CAPABILITIES) as peer:
        result = (await peer.request("tools/call", {"name": "handler"}))["result"]
    assert result["resultType"] == "input_required"
    assert isinstance(result["requestState"], str)
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert result["inputRequests"] == {
        "who": {
            "method": "elicitation/create",
            "params": {"message": "Who?", "mode": "form", "requestedSchema": schema},
        },
        "roots": {"method": "roots/list"},
    }


# What the user does.


@every_era
@pytest.mark.covers("ELI-01")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_may_decline_or_cancel(era, action):
    async def handler(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        return f"{answer.action} {answer.accepted}"

    assert text(await outcome(handler, era, User(action=action))) == f"{action} False"


@every_era
@pytest.mark.covers("ELI-01")
async def test_a_tool_that_reads_what_was_not_accepted_tells_the_model_so(era):
    async def handler(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Name)).content.name

    assert text(await outcome(handler, era, User(action="decline"))) == "The user did not accept: decline"


@every_era
@pytest.mark.covers("ELI-06")
@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (str, "Ada", "Ada"),
        (int, 3, 3),
        (float, 0.5, 0.5),
        (bool, True, True),
        (Colour, "red", Colour.RED),
        (Literal["red", "blue"], "blue", "blue"),
    ],
    ids=["str", "int", "float", "bool", "enum", "literal"],
)
async def test_a_single_field_is_asked_for_as_a_form_of_it(era, kind, given, value):
    async def handler(ctx: Context) -> str:
        return repr((await ctx.elicit("Which?", kind)).content)

    assert text(await outcome(handler, era, User(given))) == repr(value)
