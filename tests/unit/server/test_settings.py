import re
from abc import ABC, abstractmethod

import pytest

from dragoman import ConfigError, Configuration, DefinitionError, Server, tool, types
from dragoman.protocol.versions import V2025_03_26, VERSIONS
from dragoman.server.settings import (
    MOUNT_OPTIONS_ELSEWHERE,
    NAMES_ELSEWHERE,
    RUN_OPTIONS_ELSEWHERE,
    ServerSettings,
)
from dragoman.stores import Local, Memory, Redis
from dragoman.stores.sealed import SealedStore


async def around(data, call_next):
    await call_next()


def settings_of(**configuration):
    return ServerSettings.of(Configuration(**configuration), Configuration())


def test_nothing_configured_serves_every_version_validates_arguments_and_observes_nothing():
    settings = settings_of()
    assert (settings.versions, settings.pinned) == (VERSIONS, None)
    assert (settings.is_observed, settings.validates_arguments, settings.validates_results) == (False, True, False)


@pytest.mark.parametrize("configuration", [{"around_request": around}, {"instrumentation_callback": print}])
def test_either_hook_observes(configuration):
    assert settings_of(**configuration).is_observed


def test_a_pin_serves_one_version():
    assert settings_of(protocol_version="2025-03-26").versions == (V2025_03_26,)


def test_what_is_said_otherwise_is_not_lost():
    listed = types.Tool(name="a", input_schema={"type": "object"}, output_schema={"type": "integer"})
    heard = types.AudioContent("AA==", "audio/wav")
    assert settings_of(protocol_version="2025-11-25").require_carried("The tool", listed) is None
    assert settings_of(protocol_version="2024-11-05").require_carried("The block", heard) is None


def test_nothing_is_carried_by_every_version():
    assert settings_of(protocol_version="2024-11-05").require_carried("Nothing", None) is None


def test_the_path_of_what_is_lost_leads_through_lists_and_objects():
    link = types.ResourceLink(name="a", uri="a://b", icons=[types.Icon("https://example.com/a.png")])
    result = types.CallToolResult([types.TextContent("a"), link])
    with pytest.raises(DefinitionError, match=r"^The result has content\[1\]\.icons, which .* 2025-06-18 lacks"):
        settings_of(protocol_version="2025-06-18").require_carried("The result", result)


def test_a_definition_is_checked_without_being_changed():
    counting = tool(name="count")(lambda: 3)
    before = counting.definition
    Server(configuration=Configuration(protocol_version="2024-11-05")).offering.require_definition_carried(counting)
    assert counting.definition is before


@pytest.mark.parametrize("name", NAMES_ELSEWHERE)
def test_names_of_other_packages_say_what_to_write(name):
    server = Server()
    for owner, kind in ((server, "'Server' object"), (Server, "type object 'Server'")):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError) as raised:
            getattr(owner, name)
        assert str(raised.value) == f"{kind} has no attribute {name!r}: {NAMES_ELSEWHERE[name]}"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("http_app", "server.asgi()"),
        ("streamable_http_app", "server.asgi()"),
        ("custom_route", "@server.route("),
        ("add_middleware", "server.middleware(function)"),
        ("list_tools", "server.tools"),
        ("get_tools", "server.tools"),
        ("import_server", "server.mount(other"),
        ("as_proxy", "Server.proxy(target)"),
        ("from_openapi", "OpenAPI is not imported"),
    ],
)
def test_methods_of_fastmcp_name_ours(name, remedy):
    with pytest.raises(AttributeError, match=re.escape(remedy)):
        getattr(Server(), name)


def test_remedies_name_attributes_that_exist():
    server = Server()
    texts = [*NAMES_ELSEWHERE.values(), *MOUNT_OPTIONS_ELSEWHERE.values(), *RUN_OPTIONS_ELSEWHERE.values()]
    named = {name for text in texts for name in re.findall(r"\b[sS]erver\.([a-z_]+)", text)}
    assert named
    assert [name for name in named if not hasattr(server, name)] == []


def test_other_missing_names_are_suggested_as_usual():
    with pytest.raises(AttributeError, match=r"^'Server' object has no attribute 'tols'$") as raised:
        Server().tols  # noqa: B018
    assert (raised.value.name, type(raised.value.obj)) == ("tols", Server)
    with pytest.raises(AttributeError, match=r"^type object 'Server' has no attribute 'tols'$"):
        Server.tols  # noqa: B018


def test_a_subclass_of_server_may_extend_an_abstract_class():
    class Abstract(ABC):
        @abstractmethod
        def city(self): ...

    class Weather(Server, Abstract):
        def city(self):
            return "Oslo"

    assert Weather("weather").city() == "Oslo"
    assert not hasattr(Weather, "http_app")


def test_an_attribute_error_within_a_property_is_not_replaced():
    class Broken(Server):
        @property
        def http_app(self):
            return None.missing

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'missing'"):
        Broken().http_app  # noqa: B018


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda server: server.mount(Server(), namespace="a"),
            "mount() has no option 'namespace': write prefix=\"name\"",
        ),
        (lambda server: server.mount(Server(), tool_names={}), "mount() has no option 'tool_names': write rename="),
        (lambda server: server.run("http", stateless_http=True), "'stateless_http': write stateless=True"),
        (lambda server: server.run(show_banner=False), "'show_banner': leave it out"),
        (lambda _: Server(auth=print), "'auth': give it to run(\"http\", ...) or asgi(...)"),  # type: ignore[call-arg]
        (
            lambda _: types.TextContent(type="text", text="a"),  # type: ignore[call-arg]
            "leave it out, because every TextContent has the type 'text'",
        ),
    ],
)
def test_options_of_fastmcp_say_what_to_write(act, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        act(Server())


NO_SECRET = "set DRAGOMAN_SECRET to the same value on every machine, or give the Server a secret"


@pytest.mark.covers("WRK-14")
def test_a_store_of_many_machines_needs_a_secret_before_anything_is_served(monkeypatch):
    monkeypatch.delenv("DRAGOMAN_SECRET", raising=False)
    server = Server(store=Redis("redis://127.0.0.1:1"))
    for serve in (server.asgi, server.run, lambda: server.run("http", port=0), lambda: server.store):
        with pytest.raises(ConfigError, match=NO_SECRET):
            serve()


@pytest.mark.covers("WRK-14")
def test_a_secret_of_the_author_or_of_the_environment_is_one(monkeypatch):
    monkeypatch.delenv("DRAGOMAN_SECRET", raising=False)
    given = Server(store=Redis("redis://127.0.0.1:1"), secret=["new secret of many bytes", "old secret of many bytes"])
    assert given.asgi() is not None
    monkeypatch.setenv("DRAGOMAN_SECRET", "a secret of many bytes")
    assert Server(store=Redis("redis://127.0.0.1:1")).asgi() is not None


@pytest.mark.parametrize("secret", ["", "abc", [], [""], ["", "a secret of sixteen"], ["a secret of sixteen", ""], 5])
@pytest.mark.parametrize("make", [Server, lambda secret: Server.proxy("http://127.0.0.1:1/mcp", secret=secret)])
def test_empty_and_short_secrets_are_refused_when_they_are_configured(make, secret):
    with pytest.raises(DefinitionError, match="secret"):
        make(secret=secret)


def test_short_secret_of_the_environment_is_refused_before_anything_is_served(monkeypatch):
    monkeypatch.setenv("DRAGOMAN_SECRET", "abc")
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    server = Server()
    for serve in (server.run, server.asgi, server.wsgi, lambda: server.handle(message), lambda: server.connect(print)):
        with pytest.raises(DefinitionError, match="DRAGOMAN_SECRET is too short: it has 3 bytes"):
            serve()


def test_a_store_is_sealed_once_and_local_unless_something_else_is_given():
    server, memory = Server(), Memory()
    assert isinstance(server.store, SealedStore)
    assert isinstance(server.store.engine, Local)
    assert server.store is server.store
    assert Server(store=memory).store.engine is memory


@pytest.mark.parametrize("store", ["redis://localhost", Memory, object()])
def test_what_is_no_store_is_refused(store):
    with pytest.raises(DefinitionError, match=r"store must be a store, such as dragoman\.stores\.Local\(\), not"):
        Server(store=store)


@pytest.mark.parametrize(
    ("option", "remedy"),
    [("auth", 'run("http", ...) or asgi('), ("middleware", "@server.middleware"), ("titel", "did you mean 'title'?")],
)
def test_an_option_that_a_server_does_not_have_is_refused_with_the_remedy(option, remedy):
    with pytest.raises(TypeError, match=re.escape(remedy)):
        Server("x", **{option: None})


@pytest.mark.parametrize("verb", ["enable", "disable"])
def test_definitions_are_not_enabled_or_disabled_by_tags(verb):
    with pytest.raises(TypeError, match="exclude_tags="):
        getattr(Server("x"), verb)(tags={"admin"})
