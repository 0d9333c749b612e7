"""Completion of the arguments of prompts and of the variables of templates, on the wire."""

import pytest

from dragoman import BlockingContext, Context, DefinitionError, Prompt, Resource, Server, prompt, resource, types
from scenarios.wire import EVERY_ERA, ask

TONES = ("terse", "kind", "keen")
NOTHING = {"values": [], "hasMore": False}


def complete(server, ref, argument, value="", era="handshake", **more):
    params = {"ref": ref, "argument": {"name": argument, "value": value}, **more}
    return ask(server, "completion/complete", params, era)


def completion(server, ref, argument, value="", era="handshake", **more):
    return complete(server, ref, argument, value, era, **more)["result"]["completion"]


def reviewing():
    server = Server()

    @server.prompt
    def review(code: str, tone: str = "kind") -> str:
        return f"{tone}: {code}"

    @review.complete("tone")
    def tones(value, arguments):
        return [tone for tone in TONES if tone.startswith(value)]

    @server.resource("users://{team}/{user}")
    def profile(team: str, user: str) -> str:
        return f"{team} {user}"

    @profile.complete("user")
    async def users(value: str, arguments: dict, ctx: Context):
        team = arguments.get("team", "any")
        return [f"{value}-of-{team}-for-{ctx.client.version.name}"]

    return server


REVIEW = {"type": "ref/prompt", "name": "review"}
USERS = {"type": "ref/resource", "uri": "users://{team}/{user}"}


@pytest.mark.covers("CMP-02", "CMP-03")
@EVERY_ERA
def test_an_argument_of_a_prompt_is_completed_by_its_own_function(era):
    found = completion(reviewing(), REVIEW, "tone", "k", era)
    assert found == {"values": ["kind", "keen"], "hasMore": False}


@pytest.mark.covers("CMP-02", "CMP-08")
@pytest.mark.parametrize("uri", ["users://{team}/{user}", "users://red/ada"], ids=["template", "URI"])
def test_a_variable_of_a_template_is_completed_with_the_arguments_that_are_filled_in(uri):
    ref = {"type": "ref/resource", "uri": uri}
    found = completion(reviewing(), ref, "user", "ad", context={"arguments": {"team": "red"}})
    assert found["values"] == ["ad-of-red-for-2025-11-25"]
    assert completion(reviewing(), ref, "user", "ad", context={})["values"] == ["ad-of-any-for-2025-11-25"]


@pytest.mark.covers("CMP-05")
@pytest.mark.parametrize(("ref", "argument"), [(REVIEW, "code"), (REVIEW, "nobody"), (USERS, "team")])
def test_what_nobody_completes_has_no_values(ref, argument):
    assert completion(reviewing(), ref, argument) == NOTHING


@pytest.mark.covers("CMP-02", "CMP-08")
def test_the_catch_all_completes_what_has_no_function_of_its_own():
    server = reviewing()
    server.add_resource(Resource(uri="a://b", name="b"))

    @server.on_complete
    async def anything(ref, argument, arguments, ctx: Context):
        which = ref.name if ref.type == "ref/prompt" else ref.uri
        return [which, argument.name, argument.value, *arguments, str(ctx.server_context)]

    assert completion(server, REVIEW, "code", "x", context={"arguments": {"tone": "kind"}})["values"] == [
        "review",
        "code",
        "x",
        "tone",
        "None",
    ]
    assert completion(server, {"type": "ref/resource", "uri": "a://b"}, "any")["values"][0] == "a://b"
    assert completion(server, REVIEW, "tone", "t")["values"] == ["terse"]


@pytest.mark.covers("CMP-08")
def test_a_completer_may_block_and_take_as_little_as_it_wants():
    server = Server(server_context="acme")

    @server.prompt
    def greet(who: str, how: str) -> str:
        return who + how

    @greet.complete("who")
    def names(value: str):
        return [value + "!"]

    @greet.complete("how")
    def ways(value: str, ctx: BlockingContext):
        return [f"{value} {ctx.server_context}"]

    assert completion(server, {"type": "ref/prompt", "name": "greet"}, "who", "a")["values"] == ["a!"]
    assert completion(server, {"type": "ref/prompt", "name": "greet"}, "how", "b")["values"] == ["b acme"]


@pytest.mark.covers("CMP-03", "CMP-04")
@pytest.mark.parametrize(
    ("returned", "sent"),
    [
        (["a", "b"], {"values": ["a", "b"], "hasMore": False}),
        (("a", 1), {"values": ["a", "1"], "hasMore": False}),
        ({"values": ["a"], "total": 9, "has_more": True}, {"values": ["a"], "total": 9, "hasMore": True}),
        (types.Completion(["a"], total=5), {"values": ["a"], "total": 5, "hasMore": False}),
        ("whole", {"values": ["whole"], "hasMore": False}),
        ((str(number) for number in range(2)), {"values": ["0", "1"], "hasMore": False}),
        (None, NOTHING),
        ([], NOTHING),
        (["x"] * 100, {"values": ["x"] * 100, "hasMore": False}),
        (["x"] * 101, {"values": ["x"] * 100, "total": 101, "hasMore": True}),
        (types.Completion(["x"] * 101, total=1000), {"values": ["x"] * 100, "total": 1000, "hasMore": True}),
    ],
    ids=[
        "list",
        "tuple",
        "dict",
        "Completion",
        "one value",
        "generator",
        "None",
        "empty",
        "100 values",
        "101 values",
        "101 values of more",
    ],
)
def test_what_a_completer_returns_becomes_at_most_100_values(returned, sent):
    server = Server()
    server.prompt(name="p", arguments=[{"name": "x"}])(lambda x="": x)
    server.on_complete(lambda ref: returned)
    assert completion(server, {"type": "ref/prompt", "name": "p"}, "x") == sent


@pytest.mark.covers("CMP-03")
def test_a_completer_may_return_the_whole_result():
    server = reviewing()
    server.on_complete(lambda: types.CompleteResult(types.Completion(["x"] * 101), meta={"example.com/a": 1}))
    result = complete(server, REVIEW, "code")["result"]
    assert result == {
        "completion": {"values": ["x"] * 100, "total": 101, "hasMore": True},
        "_meta": {"example.com/a": 1},
    }


@pytest.mark.covers("CMP-06")
@pytest.mark.parametrize("era", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_an_unknown_reference_is_refused_before_anybody_completes_it(era):
    server = reviewing()
    asked = []
    server.on_complete(lambda ref: asked.append(ref))
    assert complete(server, {"type": "ref/prompt", "name": "nobody"}, "x", era=era)["error"] == {
        "code": -32602,
        "message": "Unknown prompt: nobody",
    }
    assert complete(server, {"type": "ref/resource", "uri": "nope://x"}, "x", era=era)["error"] == {
        "code": -32602,
        "message": "Unknown resource or template: nope://x",
        "data": {"uri": "nope://x"},
    }
    assert complete(server, {"type": "ref/tool", "name": "review"}, "x", era=era)["error"]["code"] == -32602
    assert asked == []


@pytest.mark.covers("CMP-07")
@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"ref": REVIEW},
        {"argument": {"name": "tone", "value": ""}},
        {"ref": REVIEW, "argument": {"name": "tone"}},
        {"ref": REVIEW, "argument": {"value": ""}},
        {"ref": REVIEW, "argument": {"name": "tone", "value": 3}},
        {"ref": {"name": "review"}, "argument": {"name": "tone", "value": ""}},
        {"ref": "review", "argument": {"name": "tone", "value": ""}},
        {"ref": REVIEW, "argument": {"name": "tone", "value": ""}, "context": {"arguments": {"a": 1}}},
    ],
)
def test_incomplete_parameters_are_refused(params):
    assert ask(reviewing(), "completion/complete", params)["error"]["code"] == -32602


@pytest.mark.covers("CMP-01", "SRV-18")
@EVERY_ERA
def test_completions_are_declared_and_served_only_where_something_completes(era):
    server = Server()

    @server.prompt
    def review(tone: str) -> str:
        return tone

    assert server.capabilities.completions is None
    assert complete(server, REVIEW, "tone", era=era)["error"]["code"] == -32601
    review.complete("tone")(lambda value: TONES)
    assert server.capabilities.completions == {}
    assert completion(server, REVIEW, "tone", era=era)["values"] == list(TONES)
    server.remove_prompt(review)
    assert server.capabilities.completions is None
    assert complete(server, REVIEW, "tone", era=era)["error"]["code"] == -32601


@pytest.mark.covers("CMP-01")
def test_a_completion_that_a_shared_prompt_gets_later_is_served_by_every_server_that_has_it():
    @prompt
    def review(tone: str) -> str:
        return tone

    servers = [Server(prompts=[review]), Server(prompts=[review])]
    assert [server.capabilities.completions for server in servers] == [None, None]
    review.complete("tone")(lambda value: ["x"])
    assert [completion(server, REVIEW, "tone")["values"] for server in servers] == [["x"], ["x"]]


@pytest.mark.covers("CMP-01")
def test_declared_capabilities_decide_whether_completions_are_served():
    undeclared = Server(capabilities={"completions": False})
    undeclared.add_prompt(Prompt.define(lambda tone: tone, name="review"))
    undeclared.on_complete(lambda: ["x"])
    assert complete(undeclared, REVIEW, "tone")["error"]["code"] == -32601
    declared = Server(capabilities={"prompts": {}, "completions": {}})
    declared.add_prompt(Prompt.define(lambda tone: tone, name="review"))
    assert completion(declared, REVIEW, "tone") == NOTHING


def test_an_argument_that_does_not_exist_cannot_be_completed():
    server = reviewing()
    with pytest.raises(DefinitionError, match="no argument 'colour'"):
        server.registry.prompts["review"].complete("colour")
    with pytest.raises(DefinitionError, match="no argument 'colour'"):
        server.registry.templates["users://{team}/{user}"].complete("colour")


@pytest.mark.covers("SRV-23")
def test_a_completer_that_fails_is_reported_and_says_nothing_of_why(caplog):
    server = reviewing()

    @server.on_complete
    def broken(ref):
        raise LookupError("secret")

    assert complete(server, REVIEW, "code")["error"] == {"code": -32603, "message": "Internal error"}
    assert len(caplog.records) == 1


def test_a_fixed_resource_has_nothing_to_complete():
    @resource("config://app")
    def config() -> str:
        return ""

    with pytest.raises(DefinitionError, match="'config://app' has no variable 'name' to complete: its URI is fixed"):
        config.complete("name")
