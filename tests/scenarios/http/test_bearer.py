"""Bearer tokens over HTTP: who is let in, what the others are told, and what a token lets its bearer do."""

import logging
from typing import Any

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from auth.issuer import RESOURCE, issuing
from dragoman import AsyncClient, Context, Server
from dragoman.auth import Bearer, ClientCredentials, Identity, Introspection, Jwt
from dragoman.errors import AuthRequired, DefinitionError, InsufficientScope
from dragoman.server import HttpRequest, asgi
from dragoman.stores import Memory
from dragoman.transports.http.asgi import AsgiApp
from scenarios.http.test_uvicorn import running, stateless
from scenarios.http_peer import BATCHING, NEWEST, SECRET, STATELESS, Exchange, HttpPeer, live
from scenarios.http_travels import City, text

METADATA = "https://api.example.com/.well-known/oauth-protected-resource/mcp"
LOGIN = "https://login.example.com"
EVERYTHING = ["whoami", "read", "write", "where", "delete"]
INTERNAL = {"jsonrpc": "2.0", "error": {"code": -32603, "message": "Internal error"}}
USERS = {
    "nothing": Identity("ann"),
    "reader": Identity("ann", frozenset({"files:read"})),
    "writer": Identity("ann", frozenset({"files:read", "files:write"}), {"tenant": "acme"}),
    "bob": Identity("bob", frozenset({"files:read", "files:write"})),
}


class Office:
    """A server whose tools take scopes, and what they did."""

    def __init__(self, **options: Any) -> None:
        self.server = server = Server("office", secret=SECRET, store=Memory(), **options)
        self.done: list[str] = []

        @server.tool
        async def whoami(ctx: Context) -> str:
            self.done.append("whoami")
            scopes = "everything" if ctx.scopes is None else " ".join(sorted(ctx.scopes))
            return f"{ctx.principal}: {scopes}: {ctx.claims.get('tenant')}"

        @server.tool(scopes=["files:read"])
        async def read() -> str:
            self.done.append("read")
            return "read"

        @server.tool(scopes=["files:write", "files:read"])
        async def write() -> str:
            self.done.append("write")
            return "written"

        @server.tool(scopes=["files:read"])
        async def where(ctx: Context) -> str:
            answer = await ctx.elicit("Where?", City)
            self.done.append("where")
            return f"{ctx.principal} in {answer.content.city}"

        @server.tool
        async def delete(path: str, ctx: Context) -> str:
            if path.startswith("/shared") and "files:admin" not in (ctx.scopes or ()):
                raise InsufficientScope(["files:admin"])
            self.done.append("delete")
            return "deleted"

    def serve(self, auth: Any = None, **options: Any) -> AsgiApp:
        return self.server.asgi(auth=auth or door(), **options)


def door(verifier: Any = USERS.get, **options: Any) -> Bearer:
    return Bearer(verifier, **({"resource": RESOURCE, "authorization_servers": [LOGIN]} | options))


class Visitor(HttpPeer):
    """A client with a token."""

    def __init__(self, app: AsgiApp, token: str | None, version: str = STATELESS) -> None:
        super().__init__(app, version, capabilities={"elicitation": {}})
        self.token = token

    def send(self, method="POST", body=b"", headers=None, **options) -> Exchange:
        own = {"authorization": None if self.token is None else f"Bearer {self.token}"}
        return super().send(method, body, own | (headers or {}), **options)


async def arrived(app: AsgiApp, token: str | None, version: str) -> Visitor:
    visitor = Visitor(app, token, version)
    if version != STATELESS:
        assert (await visitor.initialize()).status == 200
    return visitor


def error(message: str, id: Any = None) -> dict[str, Any]:
    said: dict[str, Any] = {"jsonrpc": "2.0", "error": {"code": -32600, "message": message}}
    _, _, scopes = message.partition("This takes the scopes: ")
    if scopes and id is not None:  # `auth` itself refuses a request before its id is known
        said["error"]["data"] = {"requiredScopes": scopes.split()}
    return said if id is None else said | {"id": id}


FORGED = {
    "has expired": {"exp": 1_000_000_000},
    "is not valid yet": {"nbf": 4_000_000_000},
    "is for another audience": {"aud": "https://other.example.com"},
    "is for another audience than some": {"aud": ["https://other.example.com", "api"]},
    "is of another issuer": {"iss": LOGIN},
    "does not say whom it belongs to": {"sub": None},
    "does not say when it expires": {"exp": None},
    "is not signed by a key of its issuer": {"header": {"kid": "unknown"}},
}


@pytest.mark.covers("BEAR-02", "BEAR-08", "BEY-21")
@pytest.mark.parametrize("forgery", FORGED)
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_a_token_that_is_no_good_is_401_with_a_challenge_and_nothing_is_done(forgery, version, caplog):
    caplog.set_level(logging.INFO, "dragoman.server")
    reason = f"The token {forgery.removesuffix(' than some')}"
    office = Office()
    async with issuing() as issuer:
        app = office.serve(door(Jwt(issuer.url, jwks_url=f"{issuer.url}/keys")))
        given = FORGED[forgery] | ({"key": issuer.keys["first"]} if "header" in FORGED[forgery] else {})
        good = await arrived(app, issuer.token(), version)
        assert text(await good.call("whoami").end()) == "ann: : None"
        token = issuer.token(**given)
        thief = Visitor(app, token, version)
        thief.session = good.session
        exchange = await thief.call("whoami").end()
        assert (exchange.status, exchange.json) == (401, error(reason))
        assert exchange.headers["www-authenticate"] == (
            f'Bearer error="invalid_token", error_description="{reason}", resource_metadata="{METADATA}"'
        )
        logged = [record for record in caplog.records if record.name == "dragoman.server"]
        assert [record.levelname for record in logged] == ["INFO"]
        assert f"status 401: {reason}" in logged[0].getMessage()
        assert not any(part in caplog.text for part in token.split("."))
        assert office.done == ["whoami"]
        await live(app)


@pytest.mark.covers("BEAR-02")
@pytest.mark.by_asgi
async def test_a_refusal_for_lack_of_scopes_is_logged_and_a_request_without_a_token_is_not(caplog):
    caplog.set_level(logging.INFO, "dragoman.server")
    office = Office()
    app = office.serve(door(required_scopes=["files:read"]))
    assert (await Visitor(app, None).call("whoami").end()).status == 401
    assert not caplog.records
    assert (await Visitor(app, "nothing").call("whoami").end()).status == 403
    assert (await Visitor(app, "reader").call("write").end()).status == 403
    assert [record.getMessage() for record in caplog.records] == [
        "A request was refused with status 403: This takes the scopes: files:read (the token lacks files:read)",
        "A request was refused with status 403: This takes the scopes: files:read files:write",
    ]


@pytest.mark.covers("BEAR-08", "BEY-21")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("header", [None, "Basic YTpi", "Bearer"])
@pytest.mark.by_asgi
async def test_who_has_no_token_is_401_before_the_body_is_read(method, header):
    office = Office()
    visitor = Visitor(office.serve(), None)
    exchange = await visitor.send(method, [b"one", b"two"], {"authorization": header}).end()
    assert (exchange.status, exchange.json) == (401, error("Authorization is required"))
    assert exchange.headers["www-authenticate"] == f'Bearer resource_metadata="{METADATA}"'
    assert method != "POST" or exchange._chunks == [b"one", b"two"]


@pytest.mark.covers("BEAR-08")
async def test_several_headers_are_400_over_sockets():
    office = Office()
    async with running(office.serve()) as port, aiohttp.ClientSession() as client:
        body, headers = stateless("tools/call", {"name": "whoami", "arguments": {}})
        lines = [*headers.items(), ("Authorization", "Bearer writer"), ("Authorization", "Bearer reader")]
        async with client.post(f"http://127.0.0.1:{port}/mcp", data=body, headers=lines) as response:
            assert response.status == 400
            assert 'error="invalid_request"' in response.headers["www-authenticate"]
            assert await response.json() == error("The header Authorization must hold one token")
        assert office.done == []


@pytest.mark.covers("BEAR-08")
@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_a_token_of_a_megabyte_does_no_harm_over_sockets(http):
    office = Office()
    async with running(office.serve(), http=http) as port:
        async with aiohttp.ClientSession() as client:
            body, headers = stateless("tools/call", {"name": "whoami", "arguments": {}})
            url = f"http://127.0.0.1:{port}/mcp"
            try:
                async with client.post(
                    url, data=body, headers=headers | {"Authorization": "Bearer " + "a" * 2**20}
                ) as response:
                    assert response.status in (400, 431)
            except (aiohttp.ClientError, ConnectionError):
                pass  # the server need not read it all
            async with client.post(url, data=body, headers=headers | {"Authorization": "Bearer reader"}) as response:
                assert response.status == 200
        assert office.done == ["whoami"]


@pytest.mark.covers("BEAR-09", "BEY-21")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_who_lacks_a_scope_that_everything_takes_is_403(version):
    office = Office()
    visitor = Visitor(office.serve(door(required_scopes=["files:write", "files:read"])), "reader", version)
    exchange = await visitor.request("tools/list" if version == STATELESS else "initialize")
    said = "This takes the scopes: files:read files:write"
    assert (exchange.status, exchange.json) == (403, error(said))
    assert exchange.headers["www-authenticate"] == (
        f'Bearer error="insufficient_scope", error_description="{said}", '
        f'scope="files:read files:write", resource_metadata="{METADATA}"'
    )


@pytest.mark.covers("BEAR-04")
async def test_when_tokens_cannot_be_verified_it_is_500_and_is_reported(caplog):
    office = Office()
    async with issuing() as issuer:
        issuer.tokens["t"] = {"active": True, "aud": RESOURCE, "sub": "ann"}
        address, token = f"{issuer.url}/introspect", issuer.token()
        signed = office.serve(door(Jwt(issuer.url, jwks_url=f"{issuer.url}/keys")))
        opaque = office.serve(door(Introspection(address, client_id="a", client_secret="b"), resource=RESOURCE))
        assert text(await Visitor(opaque, "t").call("whoami").end()) == "ann: : None"
        assert (await Visitor(opaque, "u").call("whoami").end()).status == 401
    for app, given in ((signed, token), (opaque, "v")):
        caplog.clear()
        exchange = await Visitor(app, given).call("whoami").end()
        assert (exchange.status, exchange.json) == (500, INTERNAL)
        assert "www-authenticate" not in exchange.headers
        assert sum(record.name == "dragoman.server" for record in caplog.records) == 1
        await live(app)
    assert office.done == ["whoami"]


# Metadata.


@pytest.mark.covers("BEAR-11", "BEY-21")
@pytest.mark.parametrize("root_path", ["", "/api", "/api/"])
@pytest.mark.parametrize(
    "place",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource/mcp/",
        "/.well-known/oauth-protected-resource/files/mcp",
    ],
)
async def test_the_metadata_are_for_everybody(place, root_path):
    bearer = door(required_scopes=["files:read"], resource="https://api.example.com/files/mcp")
    visitor = Visitor(Office().serve(bearer), None)
    path = root_path.rstrip("/") + place
    exchange = await visitor.send("GET", path=path, root_path=root_path).end()
    assert (exchange.status, exchange.headers["content-type"]) == (200, "application/json")
    assert exchange.headers["access-control-allow-origin"] == "*"
    assert exchange.json == {
        "resource": "https://api.example.com/files/mcp",
        "authorization_servers": [LOGIN],
        "scopes_supported": ["files:read"],
        "bearer_methods_supported": ["header"],
    }


@pytest.mark.covers("BEAR-11")
async def test_the_metadata_are_read_and_nothing_else():
    visitor = Visitor(Office().serve(), None)
    place = "/.well-known/oauth-protected-resource/mcp"
    asked = await visitor.send("OPTIONS", path=place).end()
    assert (asked.status, asked.body) == (204, b"")
    assert asked.headers["access-control-allow-methods"] == "GET, HEAD"
    assert asked.headers["access-control-allow-headers"] == "*"
    for method in ("POST", "PUT", "DELETE"):
        refused = await visitor.send(method, path=place).end()
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    for elsewhere in (
        "/.well-known/oauth-protected-resource/other",
        "/.well-known",
        "/.well-known/openid-configuration",
    ):
        assert (await visitor.send("GET", path=elsewhere).end()).status == 404


@pytest.mark.covers("BEAR-11")
async def test_without_a_bearer_there_are_no_metadata():
    visitor = Visitor(Office().serve(lambda request: "ann"), None)
    assert (await visitor.send("GET", path="/.well-known/oauth-protected-resource").end()).status == 404


@pytest.mark.covers("BEAR-11")
@pytest.mark.parametrize("mount", ["alone", "/mcp", "/api", "/{tenant}", "root_path"])
async def test_the_challenge_leads_to_the_metadata_wherever_the_server_is_mounted(mount):
    bearer = door()
    served = Office().serve(bearer)
    app: Any = served if mount in ("alone", "root_path") else Starlette(routes=[Mount(mount, served)])
    options = {"root_path": "/api"} if mount == "root_path" else {}
    path = {"alone": "/mcp", "/mcp": "/mcp/", "/{tenant}": "/acme%22x/mcp"}.get(mount, "/api/mcp")
    path = "/mcp" if mount == "root_path" else path
    async with running(app, **options) as port, aiohttp.ClientSession() as client:
        origin = f"http://127.0.0.1:{port}"
        async with client.post(f"{origin}{path}", headers={"Host": f"localhost:{port}"}) as response:
            assert response.status == 401
            address = response.headers["www-authenticate"].split('resource_metadata="')[1].rstrip('"')
        assert address.startswith("https://api.example.com/")
        own = address.removeprefix("https://api.example.com")
        own = own.removeprefix("/api") if mount == "root_path" else own  # as a proxy does that strips the prefix
        for method in ("GET", "HEAD"):
            async with client.request(method, origin + own) as response:
                assert (response.status, response.content_type) == (200, "application/json")
                assert int(response.headers["content-length"]) == len(bearer.metadata)
                assert await response.read() == (bearer.metadata if method == "GET" else b"")


@pytest.mark.covers("BEAR-11")
async def test_nothing_that_a_client_sends_gets_into_challenge_or_metadata():
    office = Office()
    forwarded = {
        "host": "localhost:1",
        "x-forwarded-host": "evil.example.com",
        "x-forwarded-proto": "ftp",
        "x-forwarded-prefix": "/evil",
        "forwarded": "host=evil.example.com",
    }
    visitor = Visitor(office.serve(), None)
    assert (await visitor.send("POST", b"", forwarded).end()).headers["www-authenticate"].count(METADATA) == 1
    document = await visitor.send("GET", path="/.well-known/oauth-protected-resource", headers=forwarded).end()
    assert document.json["resource"] == RESOURCE


# What a token lets its bearer do.


async def listed(visitor: Visitor) -> list[str]:
    names: list[str] = []
    cursor: dict[str, Any] = {}
    for _ in range(10):
        result = (await visitor.request("tools/list", cursor)).json["result"]
        names += [tool["name"] for tool in result["tools"]]
        if result.get("nextCursor") is None:
            return names
        cursor = {"cursor": result["nextCursor"]}
    raise AssertionError("the pages do not end")


@pytest.mark.covers("BEAR-13")
@pytest.mark.parametrize("page_size", [None, 1, 2])
@pytest.mark.parametrize("version", [STATELESS, NEWEST, BATCHING])
async def test_tools_are_listed_to_those_who_may_call_them(version, page_size):
    app = Office(page_size=page_size).serve()
    for token, names in (
        ("nothing", ["whoami", "delete"]),
        ("reader", ["whoami", "read", "where", "delete"]),
        ("writer", EVERYTHING),
    ):
        visitor = await arrived(app, token, version)
        assert await listed(visitor) == names
    if version == BATCHING:
        reader = await arrived(app, "nothing", version)
        (answer,) = (await reader.post([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]).end()).json
        assert answer["result"]["tools"][0]["name"] == "whoami"
        assert "read" not in str(answer)
    await live(app)


@pytest.mark.covers("BEAR-13")
@pytest.mark.parametrize("cache_scope", [None, "public"])
async def test_a_list_that_is_for_one_alone_says_so(cache_scope):
    app = Office(ttl_ms=1000, cache_scope=cache_scope).serve()
    assert (await Visitor(app, "writer").request("tools/list")).json["result"]["cacheScope"] == "private"
    old = await arrived(app, "writer", NEWEST)
    assert "cacheScope" not in (await old.request("tools/list")).json["result"]
    await live(app)


def refused_for(scopes: str) -> str:
    return (
        f'Bearer error="insufficient_scope", error_description="This takes the scopes: {scopes}", '
        f'scope="{scopes}", resource_metadata="{METADATA}"'
    )


@pytest.mark.covers("BEAR-13")
@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "text/event-stream"])
@pytest.mark.parametrize("keeps_sessions", [True, False])
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_calling_a_tool_that_takes_more_is_403_and_names_all_scopes(version, keeps_sessions, accept):
    office = Office()
    app = office.serve(stateless=not keeps_sessions)
    visitor = await arrived(app, "reader", version)
    exchange = await visitor.call("write", id="seven", headers={"accept": accept}).end()
    said = "This takes the scopes: files:read files:write"
    assert (exchange.status, exchange.json) == (403, error(said, "seven"))
    assert exchange.headers["www-authenticate"] == refused_for("files:read files:write")
    assert exchange.headers["content-type"] == "application/json"
    assert text(await visitor.call("read").end()) == "read"
    visitor.token = "writer"
    assert text(await visitor.call("write").end()) == "written"
    assert office.done == ["read", "write"]
    await live(app)


@pytest.mark.covers("BEAR-13")
async def test_in_a_batch_it_is_an_error_among_answers():
    office = Office()
    app = office.serve()
    visitor = await arrived(app, "reader", BATCHING)
    calls = [
        {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": {"name": name, "arguments": {}}}
        for name in ("read", "write", "whoami")
    ]
    exchange = await visitor.post(calls).end()
    assert exchange.status == 200
    answers = {answer["id"]: answer for answer in exchange.json}
    assert answers["write"] == error("This takes the scopes: files:read files:write", "write")
    assert answers["whoami"]["result"]["content"][0]["text"] == "ann: files:read: None"
    assert sorted(office.done) == ["read", "whoami"]
    await live(app)


@pytest.mark.covers("BEAR-13")
@pytest.mark.parametrize("keeps_sessions", [True, False])
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_a_handler_may_find_out_that_a_call_takes_more(version, keeps_sessions):
    office = Office()
    app = office.serve(stateless=not keeps_sessions)
    visitor = await arrived(app, "writer", version)
    exchange = await visitor.call("delete", {"path": "/shared/one"}, id=7).end()
    assert (exchange.status, exchange.json) == (403, error("This takes the scopes: files:admin", 7))
    assert exchange.headers["www-authenticate"] == refused_for("files:admin")
    assert text(await visitor.call("delete", {"path": "/own"}).end()) == "deleted"
    assert office.done == ["delete"]
    await live(app)


@pytest.mark.covers("BEAR-13")
async def test_handlers_know_who_calls_and_what_they_may_do():
    office = Office()
    app = office.serve(door(implied_scopes={"files:write": ["files:delete"]}))
    for version in (STATELESS, NEWEST):
        visitor = await arrived(app, "writer", version)
        assert text(await visitor.call("whoami").end()) == "ann: files:delete files:read files:write: acme"
    await live(app)


@pytest.mark.covers("BEAR-13")
@pytest.mark.parametrize("way", ["asgi", "run", "wsgi", "handle_http", "mounted", "proxied"])
def test_tools_with_scopes_are_not_served_over_http_without_auth(way):
    server = Office().server
    parent = Server("parent")
    parent.mount(server, prefix="office")
    serve, name = {
        "asgi": (server.asgi, "read"),
        "run": (lambda: server.run("http", port=0), "read"),
        "wsgi": (server.wsgi, "read"),
        "handle_http": (lambda: server.handle_http("POST", {}, b""), "read"),
        "mounted": (parent.asgi, "office_read"),
        "proxied": (Server.proxy(server).asgi, "read"),
    }[way]
    with pytest.raises(DefinitionError, match=f"The tool '{name}' requires scopes.*pass auth= to"):
        serve()


async def test_factory_server_with_scopes_is_refused_without_auth(caplog):
    server = Office().server
    refused = await Visitor(asgi(lambda _: server), None, STATELESS).call("write").end()
    assert refused.status == 500
    assert "requires scopes" in caplog.text


@pytest.mark.covers("BEAR-13")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_scoped_tool_registered_while_serving_without_auth_is_refused(version):
    server = Server("office", secret=SECRET)
    app = server.asgi()
    visitor = await arrived(app, None, version)
    server.tool(name="write", scopes=["files:write"])(lambda: "written")
    assert await listed(visitor) == []
    refused = await visitor.call("write").end()
    assert refused.status == 403
    await live(app)


@pytest.mark.covers("BEAR-13")
async def test_tools_with_scopes_excluded_by_tags_need_no_auth():
    server = Server("office", secret=SECRET)
    server.tool(name="write", scopes=["files:write"], tags=["admin"])(lambda: "written")
    assert await listed(Visitor(server.asgi(exclude_tags=["admin"]), None)) == []


@pytest.mark.covers("BEAR-13")
async def test_tools_with_scopes_are_open_in_memory():
    server = Office().server
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "write", "arguments": {}}}
    assert (await server.handle_async(call))["result"]["content"][0]["text"] == "written"
    assert len((await server.handle_async(call | {"method": "tools/list"}))["result"]["tools"]) == 5


@pytest.mark.covers("BEAR-13")
@pytest.mark.parametrize("scopes", ["files:read", ["a b"], ['"'], [7], [""]])
def test_scopes_that_cannot_be_are_refused_with_their_tool(scopes):
    with pytest.raises(ValueError, match="The tool 'peek': scopes"):

        @Server("office").tool(scopes=scopes)
        async def peek() -> str:
            return ""


def by_header(request: HttpRequest) -> Identity | str | None:
    return {"x": Identity("ann", frozenset({"files:read"})), "y": "bob"}.get(request.headers.get("x-key", ""))


@pytest.mark.covers("BEAR-14")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_a_function_of_the_request_may_return_an_identity(version):
    office = Office()
    app = office.serve(by_header)
    visitor = Visitor(app, None, version)
    session: dict[str, str | None] = {}
    if version != STATELESS:
        introduction = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        begun = await visitor.request("initialize", introduction, {"x-key": "x"})
        session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": version}
    assert text(await visitor.call("read", headers={"x-key": "x"} | session).end()) == "read"
    exchange = await visitor.call("write", headers={"x-key": "x"} | session).end()
    assert exchange.status == 403
    assert exchange.headers["www-authenticate"] == ('Bearer error="insufficient_scope", scope="files:read files:write"')
    if version == STATELESS:
        assert text(await visitor.call("whoami", headers={"x-key": "y"}).end()) == "bob: : None"
        assert (await visitor.call("read", headers={"x-key": "y"}).end()).status == 403
    assert (await visitor.call("read", headers={"x-key": "z"} | session).end()).status == 401
    await live(app)


@pytest.mark.covers("BEAR-14")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
@pytest.mark.parametrize("returned", ["", " ", Identity(""), True, 7])
async def test_empty_and_non_string_principals_get_401(returned, version, caplog):
    office = Office()
    office.server.route("/mine", auth=True)(lambda: "served")
    app = office.serve(lambda request: returned)
    visitor = Visitor(app, None, version)
    exchange = await (visitor.call("whoami").end() if version == STATELESS else visitor.initialize())
    assert exchange.status == 401
    assert (await visitor.send("GET", path="/mine").end()).status == 401
    assert "A request was refused because auth returned a" in caplog.text
    await live(app)


@pytest.mark.parametrize("auth", [Bearer, Identity, dict, {"token": "ann"}, "token", Jwt(LOGIN)])
def test_auth_that_cannot_verify_anybody_is_refused(auth):
    with pytest.raises(DefinitionError, match="auth must be a function of the request, a Bearer"):
        Server("office").asgi(auth=auth)


# What belongs to one principal.


@pytest.mark.covers("BEAR-15", "SHT-46")
async def test_a_session_belongs_to_a_principal_and_not_to_a_token():
    office = Office()
    app = office.serve()
    ann = await arrived(app, "reader", NEWEST)
    assert (await ann.call("write").end()).status == 403
    ann.token = "writer"
    assert text(await ann.call("write").end()) == "written"
    assert await listed(ann) == EVERYTHING
    ann.token = "nothing"
    assert await listed(ann) == ["whoami", "delete"]
    assert (await ann.call("read").end()).status == 403
    bob = Visitor(app, "bob", NEWEST)
    bob.session = ann.session
    for exchange in (await bob.call("write").end(), await bob.send("GET").end(), await bob.send("DELETE").end()):
        assert exchange.status == 404
    assert office.done == ["write"]
    assert (await ann.request("ping")).status == 200
    await live(app)


@pytest.mark.covers("BEAR-15")
async def test_what_was_asked_of_one_principal_is_not_answered_by_another_nor_with_fewer_scopes():
    office = Office()
    app = office.serve()
    ann, bob = Visitor(app, "reader"), Visitor(app, "bob")
    asked = (await ann.call("where").end()).json["result"]
    (key,) = asked["inputRequests"]
    again = {
        "name": "where",
        "arguments": {},
        "inputResponses": {key: {"action": "accept", "content": {"city": "Rome"}}},
        "requestState": asked["requestState"],
    }
    assert (await bob.request("tools/call", again)).json["error"]["code"] == -32602
    ann.token = "nothing"
    assert (await ann.request("tools/call", again)).status == 403
    assert office.done == []
    ann.token = "writer"
    assert text(await ann.request("tools/call", again)) == "ann in Rome"


# From end to end.


@pytest.mark.covers("BEAR-16")
@pytest.mark.parametrize("version", [None, NEWEST])
async def test_a_client_with_a_token_is_served_and_without_one_is_told_what_it_lacks(version):
    office = Office()
    async with issuing() as issuer, running(office.serve(door(Jwt(issuer.url)))) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        chosen = {} if version is None else {"protocol_version": version}
        async with AsyncClient(url, auth=issuer.token(scope="files:read"), **chosen) as client:
            assert [tool.name for tool in await client.tools()] == ["whoami", "read", "where", "delete"]
            assert (await client.call_tool("whoami")).text == "ann: files:read: None"
            with pytest.raises(AuthRequired) as refused:
                await client.call_tool("write")
            assert refused.value.status == 403
            assert refused.value.challenge == refused_for("files:read files:write")
        with pytest.raises(AuthRequired) as unknown:
            async with AsyncClient(url, auth="made-up", **chosen):
                pass
        assert unknown.value.status == 401
        assert office.done == ["whoami"]


@pytest.mark.covers("BEAR-16")
@pytest.mark.parametrize("version", [STATELESS, NEWEST])
async def test_a_client_gets_its_token_by_what_challenge_and_metadata_say_and_more_when_a_tool_takes_more(version):
    office, served = Office(), []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await served[0](scope, receive, send)

    async with issuing() as issuer, running(app) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        served.append(office.serve(door(Jwt(issuer.url), resource=url, authorization_servers=None)))
        robot = ClientCredentials("robot", "secret")
        async with AsyncClient(url, auth=robot, protocol_version=version) as client:
            assert (await client.call_tool("whoami")).text == "robot: : None"
            assert (await client.call_tool("write")).text == "written"
            assert (await client.call_tool("whoami")).text == "robot: files:read files:write: None"
        assert [form["resource"] for form in issuer.forms] == [url, url]
        assert [form.get("scope") for form in issuer.forms] == [None, "files:read files:write"]
        assert office.done == ["whoami", "write", "whoami"]
