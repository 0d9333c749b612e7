"""Applications and programs that serve what tags select."""

import json
import subprocess
import sys

import pytest

from dragoman import AsyncClient, DefinitionError, RpcError, Server, Tool
from scenarios.command_line import serving
from scenarios.http_peer import NEWEST, STATELESS, HttpPeer

EVERY_VERSION = pytest.mark.parametrize("version", [NEWEST, STATELESS])
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def shop(**options):
    """Return a server with a public, an internal and an untagged definition of each kind."""
    server = Server("shop", secret="a secret of sixteen", **options)
    for name, tags in (("open", {"public"}), ("staff", {"public", "internal"}), ("plain", ())):
        server.tool(name, tags=tags)(lambda: "done")
        server.prompt(name, tags=tags)(lambda: "hello")
        server.resource(f"shop://{name}", name=name, tags=tags)(lambda: "text")
        server.resource(f"shop://{name}/{{item}}", name=name, tags=tags)(lambda item: item)
    return server


async def begun(app, version):
    peer = HttpPeer(app, version)
    if version == NEWEST:
        await peer.initialize()
    return peer


async def names(peer, method):
    result = (await peer.request(method)).json["result"]
    return [entry["name"] for entry in result[LISTS[method]]]


@EVERY_VERSION
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["open", "staff", "plain"]),
        ({"include_tags": {"public"}}, ["open", "staff"]),
        ({"exclude_tags": "internal"}, ["open", "plain"]),
        ({"include_tags": ["public", "other"], "exclude_tags": ["internal"]}, ["open"]),
        ({"include_tags": []}, []),
    ],
    ids=str,
)
async def test_an_application_lists_and_serves_what_its_tags_select(version, options, expected):
    peer = await begun(shop().asgi(**options), version)
    for method in LISTS:
        assert await names(peer, method) == expected
    for name in ("open", "staff", "plain"):
        called = (await peer.call(name).end()).json
        got = (await peer.request("prompts/get", {"name": name})).json
        read = (await peer.request("resources/read", {"uri": f"shop://{name}"}, {"mcp-name": f"shop://{name}"})).json
        uri = f"shop://{name}/5"
        made = (await peer.request("resources/read", {"uri": uri}, {"mcp-name": uri})).json
        served = [name in expected] * 4
        assert ["result" in one for one in (called, got, read, made)] == served
        if name not in expected:
            assert called["error"]["message"].startswith(f"Unknown tool: {name}")


@EVERY_VERSION
async def test_two_applications_of_one_server_select_for_themselves_and_see_what_is_registered_later(version):
    server = shop()
    public = await begun(server.asgi(exclude_tags={"internal"}), version)
    whole = await begun(server.asgi(), version)
    assert await names(public, "tools/list") == ["open", "plain"]
    assert await names(whole, "tools/list") == ["open", "staff", "plain"]
    server.tool("later", tags={"internal"})(lambda: "")
    server.tool("new")(lambda: "")
    server.remove_tool("plain")
    assert await names(public, "tools/list") == ["open", "new"]
    assert await names(whole, "tools/list") == ["open", "staff", "later", "new"]


async def test_a_selection_has_pages_of_its_own():
    peer = await begun(shop(page_size=1).asgi(exclude_tags={"internal"}), STATELESS)
    first = (await peer.request("tools/list")).json["result"]
    assert (first["tools"][0]["name"], first["nextCursor"]) == ("open", "1")
    second = (await peer.request("tools/list", {"cursor": "1"})).json["result"]
    assert ([tool["name"] for tool in second["tools"]], second.get("nextCursor")) == (["plain"], None)


async def test_tags_are_not_sent_to_clients():
    async with AsyncClient(shop()) as client:
        assert [tool.meta for tool in await client.tools()] == [{}, {}, {}]


@pytest.mark.parametrize("tags", [5, [5], "admin"])
def test_tags_that_are_no_texts_are_refused(tags):
    with pytest.raises(DefinitionError, match="must be"):
        Tool.define(lambda: "", name="a", tags=tags) if tags == "admin" else Server().asgi(include_tags=tags)


SCRIPT = """
from dragoman import Server
server = Server("tagged")
for name, tags in (("open", {"public"}), ("staff", {"internal"})):
    server.tool(name, tags=tags)(lambda: "done")
if __name__ == "__main__":
    server.run(exclude_tags="internal")
"""


def listed(words):
    """Return the tools that a command lists over stdio."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    finished = subprocess.run(
        words, input=json.dumps(request).encode() + b"\n", capture_output=True, timeout=30, check=True
    )
    return [tool["name"] for tool in json.loads(finished.stdout)["result"]["tools"]]


def test_a_program_selects_by_tags_over_stdio(tmp_path):
    script = tmp_path / "tagged.py"
    script.write_text(SCRIPT, "utf-8")
    run = [sys.executable, "-m", "dragoman", "run", script]
    assert listed([sys.executable, script]) == ["open"]
    assert listed([*run, "--include-tags", "internal,other"]) == ["staff"]
    assert listed([*run, "--exclude-tags=internal"]) == ["open"]
    wrong = subprocess.run([*run, "--include-tags"], capture_output=True, timeout=30, check=False)
    assert (wrong.returncode, b"--include-tags needs a value" in wrong.stderr) == (2, True)


async def test_a_program_selects_by_tags_over_http(tmp_path):
    script = tmp_path / "tagged.py"
    script.write_text(SCRIPT, "utf-8")
    with serving(script, "--include-tags", "public", home=tmp_path) as url:
        async with AsyncClient(url) as client:
            assert [tool.name for tool in await client.tools()] == ["open"]
            with pytest.raises(RpcError, match="Unknown tool: staff"):
                await client.call_tool("staff")


def test_an_option_of_http_is_still_refused_over_stdio():
    with pytest.raises(TypeError, match="'port' is for HTTP"):
        Server().run("stdio", include_tags="a", port=5)  # type: ignore[call-overload]


async def test_tags_may_come_from_a_generator():
    server = Server("shop")
    server.tool("staff", tags=(tag for tag in ["internal"]))(lambda: "done")
    server.tool("open", tags=["public"])(lambda: "done")
    server.expose_as_tools(prompts=False, tags=(tag for tag in ["internal"]))
    peer = await begun(server.asgi(exclude_tags=(tag for tag in ["internal"])), STATELESS)
    assert await names(peer, "tools/list") == ["open"]
    peer = await begun(server.asgi(include_tags=(tag for tag in ["internal"])), STATELESS)
    assert await names(peer, "tools/list") == ["staff", "list_resources", "read_resource"]


@EVERY_VERSION
async def test_subscribing_does_not_tell_excluded_and_disabled_resources_from_unknown_ones(version):
    server = shop(capabilities={"resources": {"subscribe": True}})
    server.resource("shop://off", name="off", enabled=False)(lambda: "text")
    peer = await begun(server.asgi(exclude_tags="internal"), version)
    uris = ["shop://open", "shop://open/1", "shop://staff", "shop://staff/1", "shop://off", "shop://unknown"]
    if version == NEWEST:
        answers = [await peer.request("resources/subscribe", {"uri": uri}) for uri in uris]
        assert [answer.json["result"] for answer in answers] == [{}] * len(uris)
        return
    exchange = peer.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    await exchange.events(1)
    honoured = exchange.said[0]["params"]["notifications"]
    assert honoured["resourceSubscriptions"] == uris
    exchange.leave()
    await exchange.end()
