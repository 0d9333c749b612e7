"""Resources and templates, as a client sees them on the wire."""

import datetime as dt

import pytest

from dragoman import (
    BlockingContext,
    Context,
    DefinitionError,
    Resource,
    ResourceNotFound,
    ResourceTemplate,
    Server,
    resource,
    types,
)
from scenarios.wire import EVERY_ERA, EVERY_VERSION, ask


def read(server, uri, era="handshake"):
    return ask(server, "resources/read", {"uri": uri}, era)


def contents(server, uri, era="handshake"):
    return read(server, uri, era)["result"]["contents"]


def text(server, uri):
    (only,) = contents(server, uri)
    return only["text"]


def listed(server, era="handshake"):
    return ask(server, "resources/list", era=era)["result"]["resources"]


def listed_templates(server, era="handshake"):
    return ask(server, "resources/templates/list", era=era)["result"]["resourceTemplates"]


def serving(template, **options):
    """A server with one template whose variables come back as JSON."""

    def echo(**variables: str) -> dict:
        return variables

    server = Server()
    server.resource(template, **options)(echo)
    return server


class AppConfig(Resource):
    """The settings."""

    uri = "config://app"

    def read(self) -> str:
        return "debug=1"


def fixed_as_a_class():
    return Server(resources=[AppConfig])


def fixed_as_an_object():
    def app_config() -> str:
        """The settings."""
        return "debug=1"

    return Server(resources=[Resource.define(app_config, uri="config://app")])


def fixed_by_the_free_decorator():
    @resource("config://app")
    async def app_config() -> str:
        """The settings."""
        return "debug=1"

    return Server(resources=[app_config])


def fixed_on_the_server():
    server = Server()

    @server.resource("config://app", inline=True)
    def app_config() -> str:
        """The settings."""
        return "debug=1"

    assert app_config() == "debug=1"
    return server


@pytest.mark.covers("RES-05", "RES-06", "SRV-28")
@EVERY_ERA
@pytest.mark.parametrize(
    "make", [fixed_as_a_class, fixed_as_an_object, fixed_by_the_free_decorator, fixed_on_the_server]
)
def test_every_way_to_define_a_resource_lists_and_reads_alike(make, era):
    server = make()
    assert listed(server, era) == [{"name": "app_config", "description": "The settings.", "uri": "config://app"}]
    assert contents(server, "config://app", era) == [
        {"uri": "config://app", "mimeType": "text/plain", "text": "debug=1"}
    ]


class UserProfile(ResourceTemplate):
    """A user."""

    uri_template = "users://{user_id}/profile"

    def read(self, user_id: int) -> dict:
        return {"next": user_id + 1}


def templated_as_a_class():
    return Server(resource_templates=[UserProfile])


def templated_as_an_object():
    def user_profile(user_id: int) -> dict:
        """A user."""
        return {"next": user_id + 1}

    return Server(resources=[ResourceTemplate.define(user_profile, uri_template="users://{user_id}/profile")])


def templated_by_the_free_decorator():
    @resource("users://{user_id}/profile")
    async def user_profile(user_id: int) -> dict:
        """A user."""
        return {"next": user_id + 1}

    return Server(resource_templates=[user_profile])


def templated_on_the_server():
    server = Server()

    @server.resource("users://{user_id}/profile")
    def user_profile(user_id: int) -> dict:
        """A user."""
        return {"next": user_id + 1}

    return server


@pytest.mark.covers("TPL-02", "TPL-05", "SRV-28")
@EVERY_ERA
@pytest.mark.parametrize(
    "make", [templated_as_a_class, templated_as_an_object, templated_by_the_free_decorator, templated_on_the_server]
)
def test_every_way_to_define_a_template_lists_and_reads_alike(make, era):
    server = make()
    assert listed(server, era) == []
    assert listed_templates(server, era) == [
        {"name": "user_profile", "description": "A user.", "uriTemplate": "users://{user_id}/profile"}
    ]
    assert contents(server, "users://41/profile", era) == [
        {"uri": "users://41/profile", "mimeType": "application/json", "text": '{"next":42}'}
    ]


@pytest.mark.covers("RES-01", "RES-03")
@EVERY_ERA
def test_a_plain_resource_is_listed_as_it_is_and_reads_as_nothing(era):
    plain = Resource(
        uri="file:///readme.md",
        name="readme",
        title="Read me",
        description="First steps",
        mime_type="text/markdown",
        size=1234,
        icons=[types.Icon("https://example.com/i.png")],
        annotations={"audience": ["user"], "priority": 0.5},
        meta={"example.com/a": 1},
    )
    server = Server(resources=[plain])
    assert listed(server, era) == [
        {
            "uri": "file:///readme.md",
            "name": "readme",
            "title": "Read me",
            "description": "First steps",
            "mimeType": "text/markdown",
            "size": 1234,
            "icons": [{"src": "https://example.com/i.png"}],
            "annotations": {"audience": ["user"], "priority": 0.5},
            "_meta": {"example.com/a": 1},
        }
    ]
    assert contents(server, "file:///readme.md", era) == []


@pytest.mark.covers("RES-01")
def test_a_plain_resource_describes_itself_only_if_told_so():
    assert listed(Server(resources=[Resource(uri="a://b", name="b")])) == [{"uri": "a://b", "name": "b"}]


@pytest.mark.covers("TPL-01")
def test_a_plain_template_is_listed_as_it_is_and_reads_as_nothing():
    plain = ResourceTemplate(
        uri_template="logs://{date}",
        name="logs",
        title="Logs",
        description="By day",
        mime_type="text/plain",
        icons=[{"src": "https://example.com/i.png"}],
        annotations=types.Annotations(priority=1),
        meta={"example.com/a": 1},
    )
    server = Server(resource_templates=[plain])
    assert listed_templates(server) == [
        {
            "uriTemplate": "logs://{date}",
            "name": "logs",
            "title": "Logs",
            "description": "By day",
            "mimeType": "text/plain",
            "icons": [{"src": "https://example.com/i.png"}],
            "annotations": {"priority": 1},
            "_meta": {"example.com/a": 1},
        }
    ]
    assert contents(server, "logs://today") == []


@pytest.mark.covers("TPL-06", "RES-02")
def test_plain_resources_and_templates_are_read_by_the_handler_of_all_reads():
    server = Server(
        resources=[Resource(uri="a://b", name="b")],
        resource_templates=[ResourceTemplate(uri_template="logs://{date}", name="logs")],
    )

    @server.on_read_resource
    def read_any(uri: str) -> str:
        return f"read {uri}"

    assert text(server, "a://b") == "read a://b"
    assert text(server, "logs://today") == "read logs://today"


@pytest.mark.covers("RES-07", "RES-11")
@pytest.mark.parametrize(
    ("returned", "sent"),
    [
        ("text", [{"uri": "a://b", "mimeType": "text/plain", "text": "text"}]),
        ("", [{"uri": "a://b", "mimeType": "text/plain", "text": ""}]),
        (b"\x00\xff", [{"uri": "a://b", "mimeType": "application/octet-stream", "blob": "AP8="}]),
        (bytearray(b"hi"), [{"uri": "a://b", "mimeType": "application/octet-stream", "blob": "aGk="}]),
        ({"a": [1, None]}, [{"uri": "a://b", "mimeType": "application/json", "text": '{"a":[1,null]}'}]),
        ([1, 2], [{"uri": "a://b", "mimeType": "application/json", "text": "[1,2]"}]),
        (dt.date(2026, 7, 28), [{"uri": "a://b", "mimeType": "application/json", "text": '"2026-07-28"'}]),
        (None, []),
        (types.ResourceContents("a://c", text="other"), [{"uri": "a://c", "text": "other"}]),
        (
            [types.ResourceContents("a://c", "text/css", text="x"), "plain", b"b"],
            [
                {"uri": "a://c", "mimeType": "text/css", "text": "x"},
                {"uri": "a://b", "mimeType": "text/plain", "text": "plain"},
                {"uri": "a://b", "mimeType": "application/octet-stream", "blob": "Yg=="},
            ],
        ),
        (
            types.ResourceContents("a://b", blob="AA==", meta={"example.com/a": 1}),
            [{"uri": "a://b", "blob": "AA==", "_meta": {"example.com/a": 1}}],
        ),
    ],
)
def test_what_a_reader_returns_becomes_contents(returned, sent):
    server = Server()
    server.resource("a://b", name="b")(lambda: returned)
    assert contents(server, "a://b") == sent


@pytest.mark.covers("RES-07")
@pytest.mark.parametrize("returned", ["text", b"bytes", {"a": 1}])
def test_a_declared_mime_type_goes_with_whatever_is_read(returned):
    server = Server()
    server.resource("a://b", name="b", mime_type="application/x-mine")(lambda: returned)
    assert contents(server, "a://b")[0]["mimeType"] == "application/x-mine"


@pytest.mark.covers("RES-12", "CAC-03")
def test_a_reader_may_return_the_whole_result_which_stays_as_it_was():
    result = types.ReadResourceResult([types.ResourceContents("a://b", text="x")], ttl_ms=5)
    server = Server(ttl_ms=900, cache_scope="public")
    server.resource("a://b", name="b")(lambda: result)
    for _ in range(2):
        sealed = read(server, "a://b", "stateless")["result"]
        assert (sealed["ttlMs"], sealed["cacheScope"]) == (5, "public")
        assert read(server, "a://b")["result"] == {"contents": [{"uri": "a://b", "text": "x"}]}
    assert result == types.ReadResourceResult([types.ResourceContents("a://b", text="x")], ttl_ms=5)


@pytest.mark.covers("RES-04", "RES-08")
@EVERY_VERSION
@pytest.mark.parametrize(
    "server", [Server(), Server(resources=[Resource(uri="a://b", name="b")])], ids=["empty", "plain only"]
)
def test_an_unregistered_uri_is_not_found_with_the_code_of_the_version(server, version):
    error = read(server, "nope://x", version)["error"]
    assert error == {
        "code": -32602 if version == "2026-07-28" else -32002,
        "message": "Resource not found: nope://x",
        "data": {"uri": "nope://x"},
    }


@pytest.mark.covers("RES-04")
def test_a_reader_may_say_that_there_is_no_such_resource(caplog):
    server = Server()

    @server.resource("users://{name}")
    def user(name: str) -> str:
        raise ResourceNotFound(f"users://{name}")

    assert read(server, "users://eve", "stateless")["error"]["code"] == -32602
    assert read(server, "users://eve")["error"]["code"] == -32002
    assert caplog.records == []


@pytest.mark.parametrize("params", [None, {}, {"uri": 3}, {"uri": None}])
def test_a_read_without_a_uri_is_refused(params):
    assert ask(Server(), "resources/read", params)["error"]["code"] == -32602


@pytest.mark.covers("RES-09")
@EVERY_ERA
def test_a_handler_of_all_reads_replaces_the_readers(era):
    server = fixed_as_a_class()

    @server.on_read_resource
    async def read_any(uri: str, ctx: Context) -> str:
        if uri == "gone://":
            raise ResourceNotFound(uri)
        return f"{uri} at {ctx.client.version.name}"

    version = "2026-07-28" if era == "stateless" else "2025-11-25"
    assert contents(server, "config://app", era)[0]["text"] == f"config://app at {version}"
    assert contents(server, "anything", era)[0]["text"] == f"anything at {version}"
    assert read(server, "gone://", era)["error"]["data"] == {"uri": "gone://"}


@pytest.mark.covers("RES-13", "SRV-30")
def test_readers_are_given_the_context_that_they_ask_for():
    server = Server(server_context="acme")

    @server.resource("a://fixed")
    def fixed(ctx: BlockingContext) -> str:
        return f"{ctx.server_context} {ctx.request_id}"

    @server.resource("a://item/{name}")
    async def item(ctx: Context, name: str) -> str:
        return f"{ctx.server_context} {name}"

    @server.resource("a://all/{name}")
    def every(name: str, *, ctx: BlockingContext) -> str:
        return f"{ctx.server_context} {name}"

    assert contents(server, "a://fixed", "none")[0]["text"] == "acme 1"
    assert text(server, "a://item/x") == "acme x"
    assert text(server, "a://all/y") == "acme y"


@pytest.mark.covers("RES-10", "PAG-03")
@EVERY_ERA
def test_an_authors_list_is_made_for_each_request_and_paginated(era):
    server = Server(page_size=2, server_context=["a", "b", "c"])

    @server.on_list_resources
    async def mine(ctx: Context):
        return [
            Resource(uri="x://object", name="object"),
            types.Resource(uri="x://wire", name="wire"),
            *({"uri": f"x://{name}", "name": name, "mime_type": "text/plain"} for name in ctx.server_context),
        ]

    first = ask(server, "resources/list", {}, era)["result"]
    assert [entry["uri"] for entry in first["resources"]] == ["x://object", "x://wire"]
    server.server_context.append("d")
    second = ask(server, "resources/list", {"cursor": first["nextCursor"]}, era)["result"]
    assert second["resources"] == [
        {"uri": f"x://{name}", "name": name, "mimeType": "text/plain"} for name in ("a", "b")
    ]
    last = ask(server, "resources/list", {"cursor": second["nextCursor"]}, era)["result"]
    assert [entry["uri"] for entry in last["resources"]] == ["x://c", "x://d"]
    assert "nextCursor" not in last
    assert ask(server, "resources/list", {"cursor": "6"}, era)["error"]["code"] == -32602
    assert ask(server, "resources/list", {"cursor": "x"}, era)["error"]["code"] == -32602


@pytest.mark.covers("RES-10", "CAC-04")
def test_an_authors_list_has_the_cache_hints_of_the_server():
    server = Server(ttl_ms=7, cache_scope="public")
    server.on_list_resources(lambda: None)
    result = ask(server, "resources/list", era="stateless")["result"]
    assert (result["resources"], result["ttlMs"], result["cacheScope"]) == ([], 7, "public")
    assert ask(server, "resources/list")["result"] == {"resources": []}


def test_an_authors_list_of_something_else_is_reported_and_refused(caplog):
    server = Server()
    server.on_list_resources(lambda: [{"uri": "x://a", "nome": "a"}])
    assert ask(server, "resources/list")["error"] == {"code": -32603, "message": "Internal error"}
    assert "nome" in str(caplog.records[0].exc_info[1])


@pytest.mark.covers("TPL-04")
def test_an_exact_uri_comes_before_templates_and_templates_come_in_the_order_of_registration():
    server = Server()
    server.resource("a://{first}", name="first")(lambda first: f"first {first}")
    server.resource("a://{second}", name="second")(lambda second: f"second {second}")
    server.resource("a://{parent}/{child}", name="third")(lambda parent, child: f"third {parent} {child}")
    server.resource("a://exact", name="exact")(lambda: "exact")
    assert text(server, "a://exact") == "exact"
    assert text(server, "a://other") == "first other"
    assert text(server, "a://x/y") == "third x y"
    server.remove_resource("a://{first}")
    assert text(server, "a://other") == "second other"


TRAVERSALS = [
    ("a://{x}", "a://.."),
    ("a://{x}", "a://."),
    ("a://{x}", "a://%2e%2e"),
    ("a://{x}", "a://%2E."),
    ("a://{x}", "a://..%2F..%2Fetc%2Fpasswd"),
    ("a://{x}", "a://a%2Fb"),
    ("a://{x}", "a://..%5Cwindows"),
    ("a://{x}", "a://a%5cb"),
    ("a://{x}", "a://a%00.txt"),
    ("a://{x}", "a://%2Fetc%2Fpasswd"),
    ("a://{x}/{y}", "a://ok/.."),
    ("a://b{/x}", "a://b/.."),
    ("a://{+x}", "a://../secret"),
    ("a://{+x}", "a://a/../../secret"),
    ("a://{+x}", "a://a/%2e%2e/secret"),
    ("a://{+x}", "a://a%2F..%2Fsecret"),
    ("a://{+x}", "a:///etc/passwd"),
    ("a://{+x}", "a://%2Fetc/passwd"),
    ("a://{+x}", "a://a%5C..%5Csecret"),
    ("a://{+x}", "a://a%00"),
    ("a://{+x}", "a://C:/Windows"),
    ("a://b{#x}", "a://b#../secret"),
    ("a://b{?x}", "a://b?x=../secret"),
    ("a://b{?x}", "a://b?x=/etc/passwd"),
    ("a://b{?x}", "a://b?x=%2e%2e"),
]


@pytest.mark.covers("TPL-03")
@pytest.mark.parametrize(("template", "uri"), TRAVERSALS)
def test_a_variable_that_would_climb_out_of_a_folder_is_not_found(template, uri):
    server = serving(template)
    error = read(server, uri)["error"]
    assert error == {"code": -32002, "message": f"Resource not found: {uri}", "data": {"uri": uri}}


@pytest.mark.covers("TPL-03")
@pytest.mark.parametrize(("template", "uri"), TRAVERSALS)
def test_an_author_may_take_such_variables_in(template, uri):
    assert len(contents(serving(template, unsafe_paths=True), uri)) == 1


@pytest.mark.covers("TPL-02")
def test_a_variable_arrives_in_the_type_of_its_parameter_or_the_resource_is_not_found():
    server = Server()

    @server.resource("days://{day}/{number}")
    def day_of(day: dt.date, number: int = 1) -> str:
        return f"{day.year} {number + 1}"

    assert text(server, "days://2026-07-28/41") == "2026 42"
    assert read(server, "days://2026-07-28/many")["error"]["code"] == -32002
    assert read(server, "days://today/1", "stateless")["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("no-scheme", "absolute URI"),
        ("", "absolute URI"),
        ("a://{x}", "name them alike"),
        ("a://{x", "unbalanced brace"),
        ("a://fixed", "remove them"),
    ],
)
def test_a_uri_that_does_not_go_with_the_function_is_refused_at_registration(uri, message):
    def reader(y: str) -> str:
        return y

    with pytest.raises(DefinitionError, match=message):
        resource(uri)(reader)


def test_one_uri_is_registered_once():
    server = fixed_as_a_class()
    with pytest.raises(DefinitionError, match="config://app"):
        server.add_resource(AppConfig)
    server.add_resource(UserProfile)
    with pytest.raises(DefinitionError, match="users://"):
        server.add_resource(UserProfile)


@pytest.mark.parametrize("returned", [object(), "\ud800", {"a": object()}])
def test_contents_that_cannot_be_sent_are_reported_and_refused(returned, caplog):
    server = Server()
    server.resource("a://b", name="b")(lambda: returned)
    assert read(server, "a://b")["error"] == {"code": -32603, "message": "Internal error"}
    assert len(caplog.records) == 1
