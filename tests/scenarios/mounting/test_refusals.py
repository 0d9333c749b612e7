"""What cannot be mounted is refused with a reason, at the mount or at the registration that would make it so."""

import re

import pytest
from msgspec import Struct

from dragoman import DefinitionError, Server, types
from dragoman.errors import MethodAlreadyDefined, ToolNotUnique
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import Method
from dragoman.server import ServerExtension
from scenarios.mounted_servers import shop, weather


def named(name: str, *tools: str) -> Server:
    server = Server(name)
    for tool in tools:
        server.tool(name=tool)(lambda: "")
    return server


@pytest.mark.covers("MNT-09")
def test_a_clash_at_the_mount_is_refused_with_both_names_and_nothing_is_mounted():
    outer, inner = named("outer", "a_x"), named("inner", "x", "y")
    clash = (
        "The tool 'x' of the mounted server 'inner' is 'a_x' here, and 'outer' has 'a_x' too: mount with another"
        " prefix, or use `rename` or `exclude`"
    )
    with pytest.raises(ToolNotUnique, match=re.escape(clash)):
        outer.mount(inner, prefix="a")
    assert outer.dispatcher.mounts is None
    outer.mount(inner, prefix="a", exclude="x")
    with pytest.raises(
        DefinitionError, match="The tool 'a_y' of the mounted server 'other' is 'a_y' here, and 'inner'"
    ):
        outer.mount(named("other", "a_y"))


@pytest.mark.covers("MNT-09")
def test_a_clash_of_a_later_registration_is_refused_on_either_side_and_at_any_depth():
    top, outer, inner = named("top", "o.a_z"), named("outer"), named("inner", "x")
    outer.mount(inner, prefix="a")
    outer.mount(named("other", "a_w"))
    top.mount(outer, prefix="o", separator=".")
    with pytest.raises(
        ToolNotUnique, match="The tool 'x' of the mounted server 'inner' is 'a_x' here, and 'outer' has"
    ):
        outer.tool(name="a_x")(lambda: "")
    with pytest.raises(
        ToolNotUnique, match="The tool 'w' of the mounted server 'inner' is 'a_w' here, and 'other' has"
    ):
        inner.tool(name="w")(lambda: "")
    with pytest.raises(ToolNotUnique, match=r"The tool 'a_z' of the mounted server 'outer' is 'o.a_z' here, and 'top'"):
        inner.tool(name="z")(lambda: "")
    assert list(inner.registry.tools) == ["x"]
    outer.prompt(name="a_x")(lambda: "")
    with pytest.raises(DefinitionError, match="The prompt 'x' of the mounted server 'inner'"):
        inner.prompt(name="x")(lambda: "")
    inner.tool(name="free")(lambda: "")
    inner.remove_tool("free")
    outer.tool(name="a_free")(lambda: "")


def test_resources_and_templates_clash_by_their_uris():
    outer, inner = shop(), weather()
    outer.resource("data://weather/cities")(lambda: "")
    with pytest.raises(DefinitionError, match="The resource 'data://cities' of the mounted server 'weather'"):
        outer.mount(inner, prefix="weather")
    outer.remove_resource("data://weather/cities")
    outer.mount(inner, prefix="weather")
    with pytest.raises(DefinitionError, match="The resource template 'data://cities/"):
        outer.resource("data://weather/cities/{city}/{level}")(lambda city, level: "")


@pytest.mark.covers("MNT-09")
def test_two_servers_of_one_kind_without_a_prefix_are_refused():
    outer = shop()
    outer.mount(weather())
    with pytest.raises(DefinitionError, match="'weather' is mounted with this prefix already; give another prefix"):
        outer.mount(next(iter(outer.dispatcher.mounts)).server.owner, exclude="*")
    with pytest.raises(ToolNotUnique, match="'forecast'"):
        outer.mount(weather())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"prefix": "p" * 125},
            f"The tool 'name' of 'inner' would be called '{'p' * 125}_name', which has 130 characters",
        ),
        ({"prefix": ""}, "The prefix of a mounted server must be letters"),
        ({"prefix": "a/b"}, "The prefix of a mounted server must be letters"),
        ({"prefix": 7}, "The prefix of a mounted server must be letters"),
        ({"prefix": "a", "separator": " "}, "The separator of a mounted server must be letters"),
        ({"separator": None}, "The separator of a mounted server must be letters"),
        ({"rename": {"name": "a b"}}, "The tool 'name' of 'inner' would be called 'a b', which is not allowed"),
        (
            {"rename": {"name": "other"}},
            "The tools 'other' and 'name' of the mounted server 'inner' would both be 'other' here",
        ),
        ({"rename": {"name": "x", "other": "x"}}, "rename gives 'name' and 'other' the same name 'x'"),
        ({"rename": {"name": 1}}, "rename must map names to names"),
        ({"rename": ["name"]}, "rename must map names to names"),
        ({"rename": {"data://{a}": "b://{a}"}}, "rename cannot change the URI template"),
        ({"include": [1]}, "include must be names or URIs"),
        ({"exclude": 3}, "exclude must be names or URIs"),
    ],
)
@pytest.mark.covers("MNT-09")
def test_an_option_that_cannot_be_used_is_refused_with_the_remedy(options, reason):
    outer = Server("outer")
    with pytest.raises(DefinitionError, match=re.escape(reason)):
        outer.mount(named("inner", "name", "other"), **options)
    assert outer.dispatcher.mounts is None


def test_a_name_that_becomes_too_long_later_or_further_above_is_refused():
    top, outer, inner = named("top"), named("outer"), named("inner")
    outer.mount(inner, prefix="p" * 60)
    top.mount(outer, prefix="q" * 60)
    inner.tool(name="short")(lambda: "")
    with pytest.raises(DefinitionError, match=r"would be called 'q{60}_p{60}_lengthy', which has 129 characters"):
        inner.tool(name="lengthy")(lambda: "")
    assert list(inner.registry.tools) == ["short"]


@pytest.mark.covers("MNT-09")
def test_a_server_in_itself_and_a_cycle_are_refused():
    one, two, three = named("one"), named("two"), named("three")
    with pytest.raises(DefinitionError, match="The server 'one' cannot be mounted into itself"):
        one.mount(one, prefix="a")
    one.mount(two, prefix="a")
    two.mount(three, prefix="b")
    with pytest.raises(DefinitionError, match="'two' cannot be mounted into 'three', which is mounted in it"):
        three.mount(two, prefix="c")
    with pytest.raises(DefinitionError, match="'two' cannot be mounted into 'three', which is mounted in it"):
        three.mount(one, prefix="c")


@pytest.mark.parametrize("given", [5, None, Server], ids=repr)
def test_only_a_server_or_the_target_of_a_proxy_is_mounted(given):
    with pytest.raises(DefinitionError, match="cannot be mounted: give a Server"):
        Server("outer").mount(given)


class Quotes(ServerExtension):
    """An extension whose requests name nothing."""

    rows = (ExtensionRow(id="com.example/quotes", methods=(Method(name="quotes/all", result=types.Result),)),)

    def handlers(self):
        async def every(ctx, params):
            return {}

        return {"quotes/all": every}


def test_a_method_that_two_servers_define_is_refused():
    outer, inner = Server("outer"), Server("inner")
    outer.method("acme/add")(lambda: 1)
    inner.method("acme/add")(lambda: 2)
    with pytest.raises(MethodAlreadyDefined, match="'acme/add' is defined in 'outer' and in 'inner', and no request"):
        outer.mount(inner, prefix="inner")
    other = Server("other")
    outer.mount(other, prefix="other")
    for server in outer, other:
        with pytest.raises(MethodAlreadyDefined, match="'acme/add' is defined already"):
            server.method("acme/add")(lambda: 3)
    other.method("acme/remove")(lambda: 4)
    with pytest.raises(MethodAlreadyDefined, match="'acme/remove' is defined already"):
        outer.method("acme/remove")(lambda: 5)
    first, second = Server("first", extensions=[Quotes()]), Server("second", extensions=[Quotes()])
    with pytest.raises(MethodAlreadyDefined, match="'quotes/all' is defined in 'first' and in 'second'"):
        first.mount(second, prefix="second")


def test_extensions_that_cannot_be_told_apart_are_refused_and_the_parent_stays_as_it_was():
    class Other(Quotes):
        rows = (ExtensionRow(id="com.example/other", methods=(Method(name="quotes/all", result=types.Result),)),)

    outer, inner = Server("outer"), Server("inner", extensions=[Quotes()])
    outer.mount(inner, prefix="inner")
    with pytest.raises(DefinitionError, match="quotes/all"):
        outer.mount(Server("second", extensions=[Other()]), prefix="second")
    assert [mount.server for mount in outer.dispatcher.mounts] == [inner.dispatcher]
    assert "com.example/other" not in outer.capabilities.extensions


def test_extensions_that_add_the_same_field_are_refused_and_the_parent_stays_as_it_was():
    class Field(Struct):
        price: int | None = None

    class Other(ServerExtension):
        rows = (ExtensionRow(id="com.example/price", params={"tools/call": Field}),)

    class Further(ServerExtension):
        rows = (ExtensionRow(id="com.example/further", params={"tools/call": Field}),)

    outer, inner = Server("outer", extensions=[Other()]), Server("inner", extensions=[Further()])
    inner.method("acme/x")(lambda: 1)
    with pytest.raises(DefinitionError, match="has a field 'price' already"):
        outer.mount(inner, prefix="inner")
    assert outer.dispatcher.mounts is None
    assert not outer.dispatcher.has_method("acme/x")
