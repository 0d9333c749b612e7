"""What a server does whatever it serves: introductions, capabilities, ids, cancellation, hostile input, the end."""

import asyncio
import json
import re

import msgspec
import pytest

from dragoman import (
    BlockingContext,
    Context,
    DefinitionError,
    Prompt,
    Resource,
    ResourceTemplate,
    Server,
    Tool,
    types,
)
from dragoman.testing import WirePeer
from scenarios.wire import (
    DEADLINE,
    ENVELOPE,
    EVERY_ERA,
    EVERY_VERSION,
    HANDSHAKE_VERSIONS,
    VERSIONS,
    ask,
    encoded,
    introduction,
    request,
    text,
)


class Wire:
    """A connection whose bytes are looked at one by one; sends are framed, receipts are kept as they are."""

    def __init__(self, server):
        self.sent = []
        self._arrived = asyncio.Event()
        self.connection = server.connect(self._keep)

    def _keep(self, data):
        self.sent.append(data)
        self._arrived.set()

    def send(self, *messages):
        """Send messages, or bytes as they are, in one chunk."""
        self.connection.receive(encoded(*messages))

    def request(self, id, method, params=None):
        self.send(request(method, params, id))

    async def until(self, count):
        """Wait until so many messages were sent, and return them decoded."""
        async with asyncio.timeout(DEADLINE):
            while len(self.sent) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return [json.loads(data) for data in self.sent]

    async def end(self):
        self.connection.receive_end()
        async with asyncio.timeout(DEADLINE):
            await self.connection.drain()


# Introductions.


@pytest.mark.covers("SRV-12")
@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_initialize_agrees_to_a_version_that_is_served(version):
    result = ask(Server("sums", version="1.2"), "initialize", introduction(protocolVersion=version), "none")["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"] == {"name": "sums", "version": "1.2"}
    assert set(result) == {"protocolVersion", "serverInfo", "capabilities"}


@pytest.mark.covers("SRV-12")
@pytest.mark.parametrize("version", ["2026-07-28", "2024-10-07", "1999-01-01", "", "latest"])
def test_initialize_offers_the_newest_version_with_a_handshake_instead_of_any_other(version):
    result = ask(Server(), "initialize", introduction(protocolVersion=version), "none")["result"]
    assert result["protocolVersion"] == "2025-11-25"


@pytest.mark.covers("SRV-02", "SRV-03", "SRV-12", "SRV-13", "SRV-26")
@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2024-11-05", {"name", "version"}),
        ("2025-03-26", {"name", "version"}),
        ("2025-06-18", {"name", "version", "title"}),
        ("2025-11-25", {"name", "version", "title", "description", "websiteUrl", "icons"}),
    ],
)
def test_the_server_says_of_itself_what_the_version_knows(version, names):
    server = Server(
        "sums",
        title="Sums",
        version="1.2",
        description="Adds",
        website_url="https://example.com",
        icons=[{"src": "https://example.com/i.png"}],
        instructions="Add often.",
    )
    result = ask(server, "initialize", introduction(protocolVersion=version), "none")["result"]
    assert set(result["serverInfo"]) == names
    assert result["instructions"] == "Add often."
    assert set(ask(Server(), "initialize", introduction(), "none")["result"]["serverInfo"]) == {"name", "version"}


@pytest.mark.covers("SRV-04")
def test_what_a_server_says_of_itself_may_be_set_later():
    server = Server("sums")
    server.instructions = "Add often."
    server.server_context = "acme"
    server.tool(name="context")(returning_its_context)
    assert ask(server, "initialize", introduction(), "none")["result"]["instructions"] == "Add often."
    assert ask(server, "server/discover", era="stateless")["result"]["instructions"] == "Add often."
    assert ask(server, "tools/call", {"name": "context"})["result"]["content"][0]["text"] == "acme"
    with pytest.raises(AttributeError):
        server.info = types.Implementation("other", "1")
    ask(server, "tools/list", era="stateless")
    server.name, server.version, server.title, server.icons = "other", "2", "Other", [{"src": "a.png"}]
    server.description, server.website_url = "More", "https://example.com"
    told = ask(server, "tools/list", era="stateless")["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert told == {
        "name": "other",
        "version": "2",
        "title": "Other",
        "description": "More",
        "websiteUrl": "https://example.com",
        "icons": [{"src": "a.png"}],
    }
    assert ask(server, "initialize", introduction(), "none")["result"]["serverInfo"]["name"] == "other"
    with pytest.raises(DefinitionError, match=r"The version of a server must be text .*, such as '1\.0', not 2\.0"):
        server.version = 2.0
    assert server.version == "2"


@pytest.mark.covers("SRV-02")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": None}, "The name of a server must be text that is not empty, such as 'weather', not None"),
        ({"name": ""}, "The name of a server must be text that is not empty, such as 'weather', not ''"),
        ({"version": 1.0}, "The version of a server must be text that is not empty, such as '1.0', not 1.0"),
        ({"title": 5}, "The title of a server must be text, such as 'Weather', not 5"),
        ({"instructions": ["x"]}, "The instructions of a server must be text, such as"),
        ({"icons": 5}, "A server's icon must be in a list, such as [Icon(...)], not int"),
        ({"icons": {"src": "a.png"}}, "A server's icon must be in a list, such as [Icon(...)], not dict"),
        ({"tools": 5}, "tools must be a list"),
        ({"configuration": {}}, "configuration must be a Configuration(...), not {}"),
        ({"capabilities": 5}, "capabilities must be a dict or a ServerCapabilities, not int"),
    ],
)
def test_an_option_that_does_not_fit_is_refused_with_the_remedy(options, said):
    with pytest.raises(DefinitionError, match=re.escape(said)):
        Server(**options)


@pytest.mark.covers("SRV-04")
def test_lists_that_are_assigned_take_the_place_of_those_that_were_there():
    server = Server(tools=[Tool.define(lambda: "a", name="a")], prompts=[Prompt.define(lambda: "p", name="p")])
    assert [tool.name for tool in server.tools] == ["a"]
    assert len(ask(server, "tools/list")["result"]["tools"]) == 1
    server.tools = [Tool.define(lambda: "b", name="b"), Tool.define(lambda: "c", name="c")]
    server.prompts = []
    server.resources = [Resource(uri="a://b", name="b")]
    server.resource_templates = [ResourceTemplate.define(lambda x: x, uri_template="a://{x}", name="x")]
    assert [tool["name"] for tool in ask(server, "tools/list")["result"]["tools"]] == ["b", "c"]
    assert ask(server, "prompts/list")["result"]["prompts"] == server.prompts == []
    assert ask(server, "resources/read", {"uri": "a://b"})["result"]["contents"] == []
    assert ask(server, "resources/read", {"uri": "a://z"})["result"]["contents"][0]["text"] == "z"
    assert [one.uri for one in server.resources] == ["a://b"]
    assert [one.uri_template for one in server.resource_templates] == ["a://{x}"]
    for wrong in (5, "tools", [5], [server.tools[0], server.tools[0]]):
        with pytest.raises(DefinitionError):
            server.tools = wrong
    with pytest.raises(DefinitionError, match="A URI with variables belongs to `resource_templates`"):
        server.resources = server.resource_templates
    assert [tool.name for tool in server.tools] == ["b", "c"]


def returning_its_context(ctx: BlockingContext) -> str:
    return str(ctx.server_context)


@pytest.mark.covers("SRV-14")
async def test_a_second_initialize_is_refused_and_changes_nothing():
    server = Server()

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.client.info.name} {ctx.client.version.name}"

    async with WirePeer(server, "2025-06-18") as peer:
        again = introduction(clientInfo={"name": "impostor", "version": "1"})
        assert (await peer.request("initialize", again))["error"]["code"] == -32600
        assert text(await peer.request("tools/call", {"name": "who"})) == "wire peer 2025-06-18"


@pytest.mark.covers("SRV-11")
@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        introduction(protocolVersion=...),
        introduction(protocolVersion=3),
        introduction(capabilities=...),
        introduction(capabilities=[]),
        introduction(clientInfo=...),
        introduction(clientInfo="me"),
        introduction(clientInfo={"name": "c"}),
        introduction(clientInfo={"version": "1"}),
        introduction(clientInfo={"name": None, "version": "1"}),
    ],
)
async def test_a_malformed_introduction_is_refused_and_a_good_one_may_follow(params):
    async with WirePeer(Server(), "none") as peer:
        assert (await peer.request("initialize", params))["error"]["code"] == -32602
        assert (await peer.request("initialize", introduction()))["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.covers("SRV-29", "SIO-03")
def test_whoever_does_not_introduce_itself_is_served_as_2025_11_25_without_capabilities():
    server = Server()

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.client.info} {ctx.client.version.name} {ctx.client.capabilities == types.ClientCapabilities()}"

    assert ask(server, "ping", era="none") == {"jsonrpc": "2.0", "id": 1, "result": {}}
    response = ask(server, "tools/call", {"name": "who"}, "none")
    assert response["result"]["content"][0]["text"] == "None 2025-11-25 True"


@pytest.mark.covers("SIO-09", "SIO-10", "DSC-02")
async def test_the_era_is_decided_by_each_message_and_never_locked():
    server = Server()

    @server.tool
    async def version(ctx: Context) -> str:
        return ctx.client.version.name

    async with WirePeer(server, "none") as peer:
        call = {"name": "version"}
        assert text(await peer.request("tools/call", call)) == "2025-11-25"
        assert "result" in await peer.request("server/discover", {"_meta": ENVELOPE})
        assert text(await peer.request("tools/call", {**call, "_meta": ENVELOPE})) == "2026-07-28"
        introduced = await peer.request("initialize", introduction(protocolVersion="2024-11-05"))
        assert introduced["result"]["protocolVersion"] == "2024-11-05"
        assert text(await peer.request("tools/call", call)) == "2024-11-05"
        assert text(await peer.request("tools/call", {**call, "_meta": ENVELOPE})) == "2026-07-28"
        assert text(await peer.request("tools/call", call)) == "2024-11-05"
        for removed in ("initialize", "ping", "logging/setLevel"):
            assert (await peer.request(removed, {"_meta": ENVELOPE}))["error"]["code"] == -32601


@pytest.mark.covers("SRV-27")
async def test_each_connection_has_its_own_client():
    server = Server()

    @server.tool
    async def who(ctx: Context) -> str:
        return ctx.client.version.name

    async with WirePeer(server, "2025-06-18") as one, WirePeer(server, "2024-11-05") as other:
        for peer, version in ((one, "2025-06-18"), (other, "2024-11-05"), (one, "2025-06-18")):
            assert text(await peer.request("tools/call", {"name": "who"})) == version


@pytest.mark.covers("DSC-01", "DSC-05", "SRV-07")
@pytest.mark.parametrize("era", ["none", "stateless", "2025-06-18"])
def test_discovery_says_what_is_spoken_and_offered_with_and_without_an_envelope(era):
    server = Server("sums", version="1.2", instructions="Add often.")
    assert ask(server, "server/discover", era=era)["result"] == {
        "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        "capabilities": {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True},
            "logging": {},
        },
        "instructions": "Add often.",
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "sums", "version": "1.2"}},
    }


@pytest.mark.covers("DSC-02")
async def test_discovery_needs_no_capability_and_leaves_no_trace():
    async with WirePeer(Server(capabilities=types.ServerCapabilities()), "none") as peer:
        assert (await peer.request("server/discover"))["result"]["capabilities"] == {}
        assert "result" in await peer.request("initialize", introduction())


@pytest.mark.covers("RPC-02")
def test_a_version_that_is_not_served_is_refused_with_those_that_are():
    meta = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}
    error = ask(Server(), "tools/list", {"_meta": meta}, "none")["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": VERSIONS[::-1], "requested": "2030-01-01"}


# Capabilities and methods.

CALLS = {
    "tools": [("tools/list", None), ("tools/call", {"name": "x"})],
    "prompts": [("prompts/list", None), ("prompts/get", {"name": "x"})],
    "resources": [
        ("resources/list", None),
        ("resources/templates/list", None),
        ("resources/read", {"uri": "a://b"}),
    ],
}


@pytest.mark.covers("SRV-18")
@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_by_default_lists_and_logging_are_declared(version):
    declared = ask(Server(), "initialize", introduction(protocolVersion=version), "none")["result"]["capabilities"]
    assert declared == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True},
        "logging": {},
    }


@pytest.mark.covers("SRV-19", "SRV-20", "SRV-21")
@EVERY_ERA
@pytest.mark.parametrize("declared", CALLS)
def test_a_capabilities_object_replaces_what_is_derived_and_what_it_lacks_is_not_found(declared, era):
    server = Server(capabilities=types.ServerCapabilities(**{declared: server_capability(declared)}))
    assert server.capabilities == types.ServerCapabilities(**{declared: server_capability(declared)})
    for capability, calls in CALLS.items():
        for method, params in calls:
            code = ask(server, method, params, era).get("error", {}).get("code")
            assert (code != -32601) is (capability == declared)
    if era != "stateless":
        assert ask(server, "logging/setLevel", {"level": "info"}, era)["error"]["code"] == -32601


def server_capability(name):
    return types.ResourcesCapability() if name == "resources" else types.ListChangedCapability()


@pytest.mark.covers("SRV-20")
def test_capabilities_of_ones_own_travel_as_given():
    own = {"experimental": {"acme": {"fast": True}}, "extensions": {"com.example/x": {"level": 2}}}
    derived = Server().capabilities
    for given, told in ((own, msgspec.to_builtins(derived) | own), (types.ServerCapabilities(**own), own)):
        server = Server(capabilities=given)
        assert ask(server, "initialize", introduction(), "none")["result"]["capabilities"] == told
        assert ask(server, "server/discover", era="stateless")["result"]["capabilities"] == told


@pytest.mark.covers("SRV-18", "SRV-19")
def test_a_dict_of_capabilities_adds_to_what_is_derived_and_false_hides():
    server = Server(capabilities={"resources": {"subscribe": True}, "prompts": False, "completions": True})
    server.tool(name="context")(returning_its_context)
    assert ask(server, "initialize", introduction(), "none")["result"]["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "logging": {},
        "completions": {},
    }
    assert ask(server, "tools/call", {"name": "context"})["result"]["content"]
    assert ask(server, "prompts/list")["error"]["code"] == -32601
    server.capabilities = {"tools": {"list_changed": False}}
    assert server.capabilities.tools == types.ListChangedCapability(list_changed=False)
    assert "result" in ask(server, "prompts/list")
    with pytest.raises(DefinitionError, match="capabilities has no 'toolz'"):
        server.capabilities = {"toolz": False}
    assert server.capabilities.tools == types.ListChangedCapability(list_changed=False)


@pytest.mark.covers("SRV-19")
def test_an_author_is_warned_of_what_is_registered_and_not_declared(caplog):
    server = Server("shop", capabilities=types.ServerCapabilities(logging={}))
    server.tool(name="context")(returning_its_context)
    for _ in range(2):
        assert ask(server, "tools/list")["error"]["code"] == -32601
    [record] = caplog.records
    assert "The server 'shop' has tools that no client can use" in record.getMessage()


@pytest.mark.covers("SRV-20")
@pytest.mark.parametrize("given", [{"gadgets": {}}, {"tools": 3}, "tools"])
def test_capabilities_that_do_not_exist_are_refused(given):
    with pytest.raises(DefinitionError):
        Server(capabilities=given)


@pytest.mark.covers("SRV-05")
@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_every_request_of_a_client_has_its_handler(version):
    server = Server()
    server.on_complete(lambda ref: None)
    for method in ("ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        assert "result" in ask(server, method, era=version), method
    assert "result" in ask(server, "logging/setLevel", {"level": "warning"}, version)
    for method in ("tools/call", "prompts/get", "resources/read", "completion/complete"):
        assert ask(server, method, {}, version)["error"]["code"] == -32602, method


@pytest.mark.covers("SRV-17")
@EVERY_VERSION
@pytest.mark.parametrize("method", ["nope", "tools/List", "", "sampling/createMessage", "tasks/get"])
def test_an_unknown_method_is_named_in_the_refusal(method, version):
    error = ask(Server(), method, era=version)["error"]
    assert error == {"code": -32601, "message": f"Method not found: {method}", "data": {"method": method}}


@pytest.mark.covers("SRV-15")
@EVERY_VERSION
@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled", "notifications/progress"])
def test_a_notification_with_an_id_is_no_method(method, version):
    assert (
        ask(Server(), method, {"requestId": 5, "progressToken": 1, "progress": 1}, version)["error"]["code"] == -32601
    )


# Ids and batches.


@pytest.mark.covers("SRV-16")
async def test_an_id_in_flight_is_refused_and_free_again_afterwards():
    server = Server()
    released = asyncio.Event()

    @server.tool
    async def hold() -> str:
        await released.wait()
        return "held"

    wire = Wire(server)
    wire.request("x", "tools/call", {"name": "hold"})
    wire.request("x", "ping")
    (refused,) = await wire.until(1)
    assert refused["id"] == "x"
    assert refused["error"]["code"] == -32600
    released.set()
    assert (await wire.until(2))[1]["result"]["content"][0]["text"] == "held"
    wire.request("x", "ping")
    assert (await wire.until(3))[2] == {"jsonrpc": "2.0", "id": "x", "result": {}}
    await wire.end()


@pytest.mark.covers("RPC-04", "RPC-07")
@pytest.mark.parametrize("id", [0, -1, 2**53, 2**63, "", "a b", "ä", "<script>", "1"])
async def test_any_text_and_any_integer_is_an_id(id):
    wire = Wire(Server())
    wire.request(id, "ping")
    assert await wire.until(1) == [{"jsonrpc": "2.0", "id": id, "result": {}}]


@pytest.mark.covers("RPC-09", "BEY-09")
async def test_a_batch_is_answered_as_a_batch_where_the_version_has_batches():
    server = Server()

    @server.tool
    async def later() -> str:
        await asyncio.sleep(0)
        return "later"

    wire = Wire(server)
    wire.request(0, "initialize", introduction(protocolVersion="2025-03-26"))
    ping = request("ping")
    call = request("tools/call", {"name": "later"}, 2)
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    wire.send([call, note, ping, 3])
    _, batch = await wire.until(2)
    assert [(part.get("id"), "result" in part) for part in batch] == [(2, True), (1, True), (None, False)]
    wire.send([note])
    wire.send([])
    assert (await wire.until(3))[2]["error"]["code"] == -32600
    wire.send([{"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": introduction()}])
    assert (await wire.until(4))[3][0]["error"]["code"] == -32600
    await wire.end()
    assert len(wire.sent) == 4


@pytest.mark.covers("RPC-09", "RPC-11")
@pytest.mark.parametrize("in_one_chunk", [True, False])
async def test_a_batch_is_complete_without_the_requests_that_were_given_up(in_one_chunk):
    server = Server()

    @server.tool
    async def forever() -> str:
        await asyncio.Event().wait()

    wire = Wire(server)
    wire.request(0, "initialize", introduction(protocolVersion="2025-03-26"))
    call = request("tools/call", {"name": "forever"})
    batch = [call, request("ping", id=2)]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    if in_one_chunk:
        wire.send(batch, cancel)
    else:
        wire.send(batch)
        wire.send(cancel)
    assert (await wire.until(2))[1] == [{"jsonrpc": "2.0", "id": 2, "result": {}}]
    await wire.end()


@pytest.mark.covers("RPC-09", "BEY-09")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_other_versions_have_no_batches(version):
    wire = Wire(Server())
    wire.request(0, "initialize", introduction(protocolVersion=version))
    wire.send([request("ping")])
    assert (await wire.until(2))[1]["error"]["code"] == -32600
