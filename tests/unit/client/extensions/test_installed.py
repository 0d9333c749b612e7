"""What a client makes of the extensions that it is given, and what it refuses when it is made."""

import msgspec
import pytest
from msgspec import Raw

from dragoman import AsyncClient, Server, types
from dragoman.client.extensions.contract import ClientExtension
from dragoman.client.extensions.installed import Extensions
from dragoman.client.options import reusable
from dragoman.errors import DefinitionError, InvalidParams
from dragoman.protocol.extensions import CORE, ExtensionRow
from dragoman.protocol.methods import Method
from dragoman.protocol.subscriptions import SubscriptionField
from dragoman.protocol.versions import V2025_06_18, V2025_11_25, V2026_07_28

ID = "com.example/a"


class Added(msgspec.Struct):
    price: int = 0


class A(ClientExtension):
    rows = (ExtensionRow(id=ID),)


def bound(given):
    """Return the extensions of a client that is never connected."""
    return AsyncClient(Server(), extensions=given)._session.extensions


def test_nothing_is_the_table_of_the_core_and_declares_what_there_is():
    for nothing in (None, (), {}):
        extensions = Extensions(nothing)
        assert extensions.table is CORE
        assert extensions.filter_type is types.SubscriptionFilter
        assert extensions.methods == frozenset()
        capabilities = types.ClientCapabilities()
        assert extensions.declared(capabilities, V2026_07_28) is capabilities
        assert extensions.table.page_type("tools/list", V2026_07_28) is types.ListToolsResult


@pytest.mark.parametrize("given", ["x", 3, ["x"], [3], {ID: 3}, [{ID: None}], [A]])
def test_what_is_no_extension_is_refused(given):
    with pytest.raises(TypeError, match="extensions must be objects of a ClientExtension"):
        Extensions(given)


def test_what_does_not_fit_is_refused():
    class Rowless(ClientExtension):
        pass

    class Two(ClientExtension):
        rows = (ExtensionRow(id=ID), ExtensionRow(id="com.example/b"))

    class Serving(A):
        def requests(self):
            return {"a/ask": print}

    class Hearing(A):
        def notifications(self):
            return {"notifications/a": print}

    class Asking(ClientExtension):
        rows = (ExtensionRow(id=ID, methods=(Method(name="a/ask", result=types.Result),)),)
        requests = Serving.requests

    for given, said in (
        ({"unprefixed": {}}, "prefix"),
        ([Rowless()], "rows of one extension, not of 0"),
        ([Two()], "rows of one extension, not of 2"),
        ([A(), A()], "is given twice"),
        ([Serving()], "Serving takes 'a/ask', which its rows do not let a server send"),
        ([Hearing()], "Hearing takes 'notifications/a'"),
        ([Asking()], "Asking takes 'a/ask'"),
    ):
        with pytest.raises(DefinitionError, match=said):
            bound(given)


def test_a_notification_of_a_subscription_without_a_row_is_told_as_it_came():
    told = []

    class Hearing(ClientExtension):
        rows = (ExtensionRow(id=ID, subscriptions=(SubscriptionField(name="topics", method="notifications/a"),)),)

        def notifications(self):
            return {"notifications/a": print}

    extensions = bound([Hearing()])
    extensions.notified("notifications/a", Raw(b'{"topic":"x"}'), lambda *given, size: told.append((*given, size)))
    extensions.notified("notifications/b", Raw(b"{}"), told.append)
    assert told == [(print, {"topic": "x"}, 13)]
    assert extensions.subscription("topics").capability == ("extensions", ID)
    assert extensions.filter_type(topics=["x"]).topics == ["x"]


def test_parameters_that_the_row_does_not_type_are_a_dict():
    told = []

    class Untyped(ClientExtension):
        rows = (
            ExtensionRow(
                id=ID,
                methods=(
                    Method(name="notifications/a", sender=("server",)),
                    Method(name="a/ask", result=types.Result, sender=("server",)),
                ),
            ),
        )

        def notifications(self):
            return {"notifications/a": print}

        def requests(self):
            return {"a/ask": print}

    extensions = bound([Untyped()])
    extensions.notified("notifications/a", Raw(b'{"n":1}'), lambda function, params, size: told.append(params))
    _, read = extensions.served["a/ask"]
    assert [*told, read(b'{"n":2}')] == [{"n": 1}, {"n": 2}]
    with pytest.raises(InvalidParams):
        read(b"[]")


def test_an_extension_that_clients_do_not_declare_is_declared_only_where_settings_ask_for_it():
    class Silent(ClientExtension):
        rows = (ExtensionRow(id=ID, one_sided=True),)

    capabilities = types.ClientCapabilities()
    assert Extensions([Silent()]).declared(capabilities, V2026_07_28) is capabilities
    assert Extensions([Silent(), {ID: {"a": 1}}]).declared(capabilities, V2026_07_28).extensions == {ID: {"a": 1}}


def test_an_older_capability_is_declared_beside_what_stands_there():
    class Old(ClientExtension):
        rows = (
            ExtensionRow(
                id=ID,
                capability=("experimental", "a", "b"),
                settings={"on": 1},
                since=V2025_06_18,
                until=V2025_11_25,
            ),
        )

    declared = Extensions([Old()]).declared(types.ClientCapabilities(experimental={"z": {}}), V2025_11_25)
    assert declared.experimental == {"z": {}, "a": {"b": {"on": 1}}}
    assert declared.extensions is None


def test_entries_have_added_fields_only_in_versions_of_the_row():
    class Priced(ClientExtension):
        rows = (ExtensionRow(id=ID, since=V2026_07_28, entries={"tools/list": Added}),)

    extensions = Extensions([Priced()])
    data = b'{"tools":[{"name":"t","inputSchema":{},"price":3}]}'
    for version, expected in ((V2025_11_25, None), (V2026_07_28, Added(3))):
        kind = extensions.table.page_type("tools/list", version)
        assert kind is extensions.table.page_type("tools/list", version)
        page = msgspec.json.decode(data, type=kind)
        assert isinstance(page, types.ListToolsResult)
        assert extensions.read_tool(ID, page.tools[0]) == expected


def test_a_result_that_cannot_be_read_or_names_its_type_is_not_claimed():
    class Claiming(A):
        def result_type(self, method, result):
            return "job" if "job" in result else None

    extensions = bound([Claiming()])
    assert extensions.recognized("tools/call", Raw(b'{"job":1}')).result_type == "job"
    for other in (b"[]", b"{}", b'{"job":1,"resultType":"complete"}'):
        assert extensions.recognized("tools/call", Raw(other)) is None


def test_what_can_be_iterated_over_once_is_kept_for_several_clients():
    assert reusable({"extensions": iter([1]), "timeout": 3}) == {"extensions": (1,), "timeout": 3}
    assert reusable({"extensions": {}}) == {"extensions": {}}
