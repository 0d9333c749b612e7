"""What a client shows of itself and of its server's things."""

import pytest

from dragoman import Client, Server, types
from scenarios.scripted_server import served

CAPABILITIES = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}}


def things():
    server = Server("things", capabilities=CAPABILITIES)

    @server.tool
    def find() -> types.ResourceLink:
        return types.ResourceLink("log://2026", "log", mime_type="text/plain")

    @server.prompt
    def greet(name: str, tone: str = "kind") -> str:
        return f"Greet {name}, {tone}"

    @server.resource("log://{year}{?level}")
    def log(year: str, level: str = "all") -> str:
        return f"{year} {level}"

    @server.resource("note://first")
    def note() -> str:
        return "tea"

    return server


def test_a_definition_that_came_later_is_found_when_the_list_is_refreshed(era):
    server = things()
    with Client(server, mode=era) as client:
        assert client.tool("find").name == "find"

        @server.tool
        def later() -> str:
            return "here"

        assert client.tool("later", refresh=True)().text == "here"
        assert client.prompt("greet", refresh=True).name == "greet"
        assert client.resource("note", refresh=True).uri == "note://first"
        assert client.resource_template("log", refresh=True).name == "log"


def test_what_is_missing_is_refused_before_anything_is_sent(era):
    with Client(things(), mode=era) as client:
        prompt, template = client.prompt("greet"), client.resource_template("log")
        client.stop()
        with pytest.raises(TypeError, match="'greet' needs the argument 'name'"):
            prompt.fetch(tone="terse")
        with pytest.raises(TypeError, match="needs the argument 'year'"):
            template.fetch(level="error")
        client.start()
        assert prompt.fetch(name="Jo").text == "Greet Jo, kind"
        assert template.fetch(year="2026") == "2026 all"


def test_linked_and_subscribed_resources_are_known(era):
    with Client(things(), mode=era) as client:
        assert client.linked_resources == []
        client.call_tool("find")
        client.call_tool("find")
        (linked,) = client.linked_resources
        assert (linked.uri, linked.name, linked.mime_type) == ("log://2026", "log", "text/plain")
        assert linked.content() == "2026 all"
        client.subscribe("note://first")
        assert client.subscribed_resources == ["note://first"]
        client.unsubscribe("note://first")
        assert client.subscribed_resources == []


def test_a_name_for_people_is_the_title_then_that_of_the_annotations_then_the_name():
    server = Server("named")
    for name, options in [
        ("a", {"title": "Title", "annotations": {"title": "Hint"}}),
        ("b", {"annotations": {"title": "Hint"}}),
        ("c", {}),
    ]:
        server.tool(name=name, **options)(lambda: "x")
    with Client(server) as client:
        assert [tool.display_name for tool in client.tools()] == ["Title", "Hint", "c"]


def test_a_client_shows_its_server_and_status_and_no_secret():
    with served(things().asgi()) as url:
        client = Client(f"{url}?token=secret", auth="secret", headers={"X-Key": "secret"})
        assert repr(client) == "<Client: new>"
        with client:
            assert repr(client) == "<Client of 'things': ready, 2026-07-28>"
        assert "secret" not in repr(client)
