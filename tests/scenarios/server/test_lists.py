"""Lists in pages, and how long results may be kept, on the wire."""

import pytest

from dragoman import DefinitionError, Prompt, Resource, ResourceTemplate, Server, Tool
from scenarios.wire import EVERY_ERA, ask

LISTS = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/list", "resources"),
    "resource_templates": ("resources/templates/list", "resourceTemplates"),
}
EVERY_LIST = pytest.mark.parametrize("kind", LISTS)


def definitions(kind, names):
    def function() -> str:
        return ""

    make = {
        "tools": lambda name: Tool.define(function, name=name),
        "prompts": lambda name: Prompt.define(function, name=name),
        "resources": lambda name: Resource(uri=f"a://{name}", name=name),
        "resource_templates": lambda name: ResourceTemplate(uri_template=f"a://{name}/{{x}}", name=name),
    }[kind]
    return [make(name) for name in names]


def holding(kind, names, **options):
    return Server(**{kind: definitions(kind, names)}, **options)


def page(server, kind, cursor=None, era="handshake"):
    """Return the names on a page, and the next cursor."""
    method, field = LISTS[kind]
    result = ask(server, method, {} if cursor is None else {"cursor": cursor}, era)["result"]
    return "".join(entry["name"] for entry in result[field]), result.get("nextCursor")


def refusal(server, kind, cursor, era="handshake"):
    return ask(server, LISTS[kind][0], {"cursor": cursor}, era)["error"]["code"]


@pytest.mark.covers("PAG-01")
@EVERY_ERA
@EVERY_LIST
def test_everything_is_one_page_unless_a_page_size_is_given(kind, era):
    assert page(holding(kind, "abcde"), kind, era=era) == ("abcde", None)
    assert page(Server(), kind, era=era) == ("", None)


@pytest.mark.covers("PAG-01", "PAG-03", "PAG-04", "BEY-12")
@EVERY_ERA
@EVERY_LIST
def test_pages_follow_one_another_by_their_cursors(kind, era):
    server = holding(kind, "abcde", page_size=2)
    assert page(server, kind, None, era) == ("ab", "2")
    assert page(server, kind, "2", era) == ("cd", "4")
    assert page(server, kind, "4", era) == ("e", None)


@pytest.mark.covers("PAG-01")
def test_a_list_that_fills_its_last_page_has_no_further_one():
    server = holding("tools", "abcd", page_size=2)
    assert page(server, "tools", "2") == ("cd", None)
    assert page(holding("tools", "abcd", page_size=4), "tools") == ("abcd", None)


@pytest.mark.covers("PAG-07")
def test_each_list_may_have_its_own_page_size():
    server = Server(
        tools=definitions("tools", "abc"),
        prompts=definitions("prompts", "abc"),
        page_size={"tools": 1, "resources": None},
    )
    assert page(server, "tools") == ("a", "1")
    assert page(server, "prompts") == ("abc", None)
    assert server.page_size == {"tools": 1, "resources": None}


@pytest.mark.covers("PAG-02")
@pytest.mark.parametrize("size", [0, -1, 1.5, "2", True, {"tools": 0}, {"tools": True}, {"gadgets": 2}])
def test_a_page_size_that_makes_no_sense_is_refused_and_changes_nothing(size):
    with pytest.raises(DefinitionError, match="page_size"):
        Server(page_size=size)
    server = holding("tools", "abc", page_size=2)
    with pytest.raises(ValueError, match="page_size"):
        server.page_size = size
    assert server.page_size == 2
    assert page(server, "tools") == ("ab", "2")


@pytest.mark.covers("PAG-02")
def test_the_page_size_may_be_set_at_any_time():
    server = holding("tools", "abc")
    assert page(server, "tools") == ("abc", None)
    server.page_size = 2
    assert page(server, "tools") == ("ab", "2")
    server.page_size = None
    assert page(server, "tools") == ("abc", None)


@pytest.mark.covers("PAG-05", "PAG-06")
@EVERY_ERA
@EVERY_LIST
@pytest.mark.parametrize("cursor", [None, "", "0"])
def test_the_start_of_a_list_has_three_names_also_when_the_list_is_empty(kind, era, cursor):
    method, field = LISTS[kind]
    for server, names in ((holding(kind, "abc", page_size=2), ["a", "b"]), (Server(), [])):
        result = ask(server, method, {"cursor": cursor}, era)["result"]
        assert [entry["name"] for entry in result[field]] == names


@pytest.mark.covers("PAG-05", "PAG-06", "BEY-12")
@EVERY_ERA
@EVERY_LIST
@pytest.mark.parametrize("cursor", ["3", "4", "-1", "1.0", "abc", " 1", "1 ", "+1", "²", "१", "9" * 18, "9" * 5000])
def test_a_cursor_that_leads_nowhere_is_refused(kind, era, cursor):
    assert refusal(holding(kind, "abc", page_size=2), kind, cursor, era) == -32602


@pytest.mark.covers("PAG-05")
@pytest.mark.parametrize("params", [{"cursor": 2}, {"cursor": ["2"]}, {"cursor": True}])
def test_a_cursor_that_is_no_text_is_refused(params):
    assert ask(holding("tools", "abc", page_size=2), "tools/list", params)["error"]["code"] == -32602


@EVERY_LIST
def test_what_is_added_and_removed_shows_in_the_next_list_of_every_version(kind):
    server = holding(kind, "ab", page_size=2)
    added = definitions(kind, "c")[0]
    add = {"tools": server.add_tool, "prompts": server.add_prompt}.get(kind, server.add_resource)
    remove = {"tools": server.remove_tool, "prompts": server.remove_prompt}.get(kind, server.remove_resource)
    for era in ("2024-11-05", "2025-11-25", "2026-07-28"):
        assert page(server, kind, None, era) == ("ab", None)
        add(added)
        assert page(server, kind, None, era) == ("ab", "2")
        assert page(server, kind, "2", era) == ("c", None)
        remove(added)
        assert page(server, kind, None, era) == ("ab", None)
        assert refusal(server, kind, "2", era) == -32602


@EVERY_LIST
def test_a_definition_is_removed_by_its_name_or_uri_too(kind):
    server = holding(kind, "abc")
    key = {"resources": "a://b", "resource_templates": "a://b/{x}"}.get(kind, "b")
    remove = {"tools": server.remove_tool, "prompts": server.remove_prompt}.get(kind, server.remove_resource)
    remove(key)
    assert page(server, kind) == ("ac", None)
    with pytest.raises(DefinitionError, match="not registered"):
        remove(key)
    with pytest.raises(DefinitionError, match="not registered"):
        remove(definitions(kind, "a")[0])
    assert page(server, kind) == ("ac", None)


@pytest.mark.parametrize("given", [3, "add", object()])
def test_what_is_no_definition_is_refused(given):
    server = Server()
    for add in (server.add_tool, server.add_prompt, server.add_resource):
        with pytest.raises(DefinitionError, match=r"is not an? \w+"):
            add(given)


# How long results may be kept.


CACHEABLE = [*LISTS.values(), ("resources/read", "contents"), ("server/discover", "supportedVersions")]


def hints(server, method, era):
    params = {"uri": "a://b"} if method == "resources/read" else {}
    result = ask(server, method, params, era)["result"]
    return result.get("ttlMs"), result.get("cacheScope")


@pytest.mark.covers("CAC-01", "CAC-04", "DSC-03", "BEY-20")
@pytest.mark.parametrize("method", [method for method, _ in CACHEABLE])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0, "private")),
        ({"ttl_ms": 0}, (0, "private")),
        ({"ttl_ms": 60_000}, (60_000, "private")),
        ({"cache_scope": "public"}, (0, "public")),
        ({"ttl_ms": 5, "cache_scope": "public"}, (5, "public")),
    ],
)
def test_a_stateless_result_that_may_be_kept_says_for_how_long_and_by_whom(method, options, expected):
    server = Server(resources=[Resource(uri="a://b", name="b")], **options)
    assert hints(server, method, "stateless") == expected


@pytest.mark.covers("CAC-01")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("method", [method for method, _ in CACHEABLE if method != "server/discover"])
def test_versions_with_a_handshake_have_no_such_hints(method, version):
    server = Server(resources=[Resource(uri="a://b", name="b")], ttl_ms=5, cache_scope="public")
    assert hints(server, method, version) == (None, None)


@pytest.mark.covers("CAC-04")
def test_results_that_may_not_be_kept_have_no_such_hints():
    server = Server(prompts=definitions("prompts", "p"), tools=definitions("tools", "t"), ttl_ms=5)
    for method, name in (("prompts/get", "p"), ("tools/call", "t")):
        result = ask(server, method, {"name": name}, "stateless")["result"]
        assert not {"ttlMs", "cacheScope"} & set(result)


@pytest.mark.covers("CAC-02")
@pytest.mark.parametrize(
    "options", [{"ttl_ms": -1}, {"ttl_ms": 1.5}, {"ttl_ms": True}, {"ttl_ms": "5"}, {"cache_scope": "shared"}]
)
def test_hints_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Server(**options)
