import json

import msgspec
import pytest
from msgspec import Raw

from dragoman import InvalidParams, RpcError, types
from dragoman.client.answer.elicitation import Decline, Elicitation
from dragoman.client.answer.handlers import Handlers
from dragoman.client.answer.roots import Roots
from dragoman.client.answer.sampling import Rejected, Sampling
from dragoman.errors import InternalError, MethodNotFound
from scenarios.http_peer import scenario

SAMPLE = json.dumps(
    {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}], "maxTokens": 9}
).encode()
FORM = b'{"message": "Where?", "requestedSchema": {"type": "object", "properties": {"city": {"type": "string"}}}}'
PAGE = b'{"message": "Sign in", "mode": "url", "url": "https://example.com/", "elicitationId": "1"}'


def wire(value):
    return json.loads(msgspec.json.encode(value))


@pytest.mark.covers("CSR-05", "LEL-06", "LSA-01", "LRO-01")
def test_nothing_is_declared_without_a_handler():
    assert wire(Handlers().capabilities()) == {}
    assert wire(Handlers(roots=Roots()).capabilities()) == {}


@pytest.mark.covers("CSR-05")
def test_what_there_is_a_handler_for_is_declared():
    handlers = Handlers(on_sampling=print, on_elicitation=print, roots=Roots(["/a"]))
    assert wire(handlers.capabilities()) == {
        "sampling": {},
        "elicitation": {"form": {}, "url": {}},
        "roots": {"listChanged": True},
    }


@pytest.mark.covers("CSR-05")
def test_a_handler_says_what_else_it_can_do():
    handlers = Handlers(
        on_sampling=Sampling(print, tools=True, context=True), on_elicitation=Elicitation(print, handles_url=False)
    )
    assert wire(handlers.capabilities()) == {
        "sampling": {"tools": {}, "context": {}},
        "elicitation": {"form": {}},
    }


@pytest.mark.covers("LRO-01")
def test_roots_that_were_once_given_stay_declared():
    roots = Roots(["/a"])
    handlers = Handlers(roots=roots)
    roots.clear()
    assert wire(handlers.capabilities()) == {"roots": {"listChanged": True}}


def test_handlers_may_be_set_later_and_taken_away():
    handlers = Handlers()
    handlers.on_sampling = handlers.on_elicitation = print
    assert (handlers.on_sampling, handlers.on_elicitation) == (print, print)
    assert wire(handlers.capabilities()) == {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
    handlers.on_sampling = handlers.on_elicitation = None
    assert wire(handlers.capabilities()) == {}


@pytest.mark.covers("LHD-07")
@pytest.mark.parametrize("name", ["on_sampling", "on_elicitation"])
def test_a_handler_that_cannot_be_called_is_refused_when_it_is_given(name):
    with pytest.raises(TypeError, match=f"{name} must be a function, a callable object or an object with an execute"):
        Handlers(**{name: 5})
    handlers = Handlers(**{name: print})
    with pytest.raises(TypeError, match=f"{name} must be a function or an object, not the class Decline"):
        setattr(handlers, name, Decline)
    assert getattr(handlers, name) is print


@pytest.mark.covers("CSR-03", "CSR-07")
@pytest.mark.parametrize("kind", [bytes, Raw])
def test_sampling_is_answered_by_the_model(kind):
    @scenario
    async def answered():
        result = await Handlers(on_sampling=lambda request: request.message).answer(
            "sampling/createMessage", kind(SAMPLE)
        )()
        assert wire(result) == {
            "role": "assistant",
            "content": {"type": "text", "text": "Hello"},
            "model": "unknown",
            "stopReason": "endTurn",
        }

    answered()


@pytest.mark.covers("CSR-02", "CSR-07")
@scenario
async def test_an_elicitation_is_answered_by_the_user():
    def ask(request):
        return True if request.mode == "url" else {"city": request.server}

    handlers = Handlers(on_elicitation=ask)
    handlers.server = "weather"
    assert wire(await handlers.answer("elicitation/create", FORM)()) == {
        "action": "accept",
        "content": {"city": "weather"},
    }
    assert wire(await handlers.answer("elicitation/create", Raw(PAGE))()) == {"action": "accept"}


@pytest.mark.covers("CSR-07")
def test_a_name_that_was_given_comes_before_the_one_that_the_server_gives_itself():
    handlers, named = Handlers(), Handlers(server="weather")
    assert (handlers.server, named.server) == (None, "weather")
    for who in (handlers, named):
        who.use_server_name(types.Implementation("bank", "1"))
    assert (handlers.server, named.server) == ("bank", "weather")
    handlers.use_server_name(None)
    assert handlers.server is None


@pytest.mark.covers("CSR-04", "CSR-07")
@scenario
async def test_roots_are_listed_as_they_are_now():
    roots = Roots(["/srv/my notes"])
    handlers = Handlers(roots=roots)
    assert wire(handlers.answer("roots/list", b"{}")) == {
        "roots": [{"uri": "file:///srv/my%20notes", "name": "my notes"}]
    }
    roots.clear()
    assert wire(handlers.answer("roots/list", Raw(b""))) == {"roots": []}


@scenario
async def test_a_ping_is_answered_with_an_empty_object():
    assert wire(Handlers().answer("ping", b"")) == {}


@pytest.mark.covers("CSR-01", "LSA-01", "LEL-06", "LRO-03")
@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list", "acme/unknown"])
def test_what_there_is_no_handler_for_is_not_found(method):
    @scenario
    async def refused():
        for handlers in (Handlers(), Handlers(roots=Roots())):
            with pytest.raises(MethodNotFound, match=method):
                handlers.answer(method, SAMPLE)

    refused()


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create"])
def test_parameters_that_do_not_fit_are_refused_and_the_handler_is_not_called(method):
    called = []

    @scenario
    async def refused():
        with pytest.raises(InvalidParams):
            await Handlers(on_sampling=called.append, on_elicitation=called.append).answer(method, b'{"message": 5}')()

    refused()
    assert called == []


@pytest.mark.covers("CSR-01", "CSR-03")
@scenario
async def test_a_sampling_request_is_refused_or_fails_with_one_error():
    def refuse(request):
        raise Rejected("No")

    def fail(request):
        raise ValueError("the secret cause")

    handlers = Handlers(on_sampling=refuse)
    with pytest.raises(RpcError, match=r"^No$") as caught:
        await handlers.answer("sampling/createMessage", SAMPLE)()
    assert caught.value.code == -1
    handlers.on_sampling = fail
    with pytest.raises(InternalError) as caught:
        await handlers.answer("sampling/createMessage", SAMPLE)()
    assert "secret" not in caught.value.message


@scenario
async def test_an_elicitation_whose_handler_fails_is_cancelled():
    def fail(request):
        raise ValueError("the secret cause")

    result = await Handlers(on_elicitation=fail).answer("elicitation/create", FORM)()
    assert result == types.ElicitResult("cancel")
