"""The public surface: where names stand, which errors there are, and how objects describe themselves."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest
from msgspec import Struct

import dragoman
from budgets.surface import PACKAGES, classes
from dragoman import Client, Clients, Elicit, ElicitUrl, InputRequired, Sample, Server, errors
from dragoman.auth import Bearer, ClientCredentials, FileStorage, Identity, Introspection, MemoryStorage, TokenExchange
from dragoman.chat import ModelOptions
from dragoman.client import Approval, Elicitation, Network, Sampling
from dragoman.server import HttpReply, HttpRequest

LAZY = [name for name in PACKAGES if name not in ("dragoman.types", "dragoman.errors")]
MOST_AT_THE_TOP = 60
NEVER_SEEN = {
    "dragoman.auth.client.discovery._MetadataUnavailableError": "becomes the error of the login",
    "dragoman.cli.elicitation._DeclinedError": "ends a question at the terminal",
    "dragoman.cli.verbs.run_reload._Ended": "ends what is served, before it is started anew",
    "dragoman.schema.peer_schemas._TooManyError": "ends a comparison with a schema that branches too often",
    "dragoman.schema.python.annotations.UnsupportedAnnotation": "becomes a DefinitionError that names the parameter",
    "dragoman.schema.python.signature.ArgumentsRejected": "becomes the result of the tool, or an error of the request",
    "dragoman.server.define.content.FileUnread": "lets the server read the files of a result in a thread",
    "dragoman.server.define.tool_results.ResultMisfit": "becomes an InternalError, and its cause is reported",
    "dragoman.server.request.questions.RunEnded": "ends the run of a blocking handler that asked",
    "dragoman.server.http.refusal.HttpRefusal": "becomes a status and a JSON-RPC error",
    "dragoman.testing.stores.probe._TooSlowError": "repeats a check of a store with longer lives and leases",
    "dragoman.transports.http.exchange.Gone": "ends an exchange whose client went away",
    "dragoman.transports.http.exchange.TooSlow": "becomes status 408",
    "dragoman.transports.http.http1_head.MalformedRequest": "becomes a status",
    "dragoman.transports.http.wsgi.UnreadableBody": "becomes a status",
    "dragoman.views.findings.Unsupported": "becomes a finding about a view",
}
SECRET = "s3cret-4711-of-16"


@pytest.mark.parametrize("package", LAZY)
def test_a_lazy_package_shows_type_checkers_what_it_has_and_nothing_else(package):
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    [block] = [
        node for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    ]
    shown = {alias.name: node.module for node in block.body for alias in node.names}
    assert sorted(shown) == module.__all__ == sorted(set(module.__all__))
    for name, home in shown.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)
    assert set(module.__all__) <= set(dir(module))


def test_at_the_top_is_what_everybody_uses_and_it_stands_in_its_own_package_too():
    assert len(dragoman.__all__) <= MOST_AT_THE_TOP
    below = {name for package in PACKAGES[1:] for name in dir(importlib.import_module(package))}
    assert set(dragoman.__all__) - below == {"Configuration", "configure"}


def test_every_exception_is_in_the_one_tree_but_those_that_nobody_sees():
    for module in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
        importlib.import_module(module.name)
    kinds, found = [BaseException], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("dragoman.") and kind.__module__ != errors.__name__:
            found.add(f"{kind.__module__}.{kind.__qualname__}")
    assert found == NEVER_SEEN.keys()


def test_every_public_class_has_a_repr():
    plain = [
        name
        for name, kind in classes().items()
        if kind.__repr__ is object.__repr__ and not getattr(kind, "_is_protocol", False)
    ]
    assert plain == []


def test_wire_types_describe_themselves_by_their_fields():
    kinds = [
        kind for name, kind in classes().items() if name.startswith("dragoman.types.") and issubclass(kind, Struct)
    ]
    assert kinds
    assert all(kind.__repr__ is Struct.__repr__ for kind in kinds)


def greeting(name: str) -> str:
    return name


OBJECTS = [
    (Server("shop", version="2", secret=SECRET, tools=[greeting], server_context=SECRET), "<Server 'shop' 2: 1 tool>"),
    (Client("https://example.com", auth=SECRET, headers={"X": SECRET}, env={"A": SECRET}), "<Client: new>"),
    (Clients({"a": {"url": f"https://u:{SECRET}@example.com"}}), "<Clients a: new>"),
    (
        Elicit("Which city?", {"type": "object", "properties": {"city": {"type": "string"}}}),
        "<Elicit 'Which city?': city>",
    ),
    (ElicitUrl("Sign in", f"https://example.com?token={SECRET}"), "<ElicitUrl 'Sign in'>"),
    (Sample(SECRET, max_tokens=5), "<Sample: 1 messages, at most 5 tokens>"),
    (InputRequired(state={"token": SECRET}), "InputRequired({})"),
    (Approval("pay", {"amount": 3}), "<Approval of 'pay' with {'amount': 3}>"),
    (Sampling(greeting), "<Sampling by greeting>"),
    (Elicitation(greeting, handles_url=False), "<Elicitation by greeting, without pages>"),
    (Network(proxy=f"http://u:{SECRET}@proxy"), "<Network with proxy>"),
    (HttpRequest("POST", "/mcp", {"authorization": SECRET}, {"headers": SECRET}), "<HttpRequest POST /mcp>"),
    (HttpReply(200, [("Mcp-Session-Id", SECRET)], SECRET.encode()), "<HttpReply 200: 17 bytes>"),
    (ModelOptions(temperature=0.5, extra={"headers": SECRET}), "ModelOptions(temperature=0.5, headers=...)"),
    (Identity("ada", frozenset({"read"}), {"email": SECRET}), "<Identity 'ada': read>"),
    (
        Bearer(lambda token: None, resource="https://example.com/mcp", authorization_servers=["https://i.example.com"]),
        "<Bearer of https://example.com/mcp>",
    ),
    (
        Introspection("https://i.example.com", client_id="me", client_secret=SECRET),
        "<Introspection at https://i.example.com>",
    ),
    (
        TokenExchange("https://i.example.com/token", SECRET, client_id="me", client_secret=SECRET),
        "<TokenExchange at https://i.example.com/token>",
    ),
    (FileStorage("/tmp/tokens", account=SECRET), "<FileStorage in /tmp/tokens>"),
    (MemoryStorage(), "<MemoryStorage of 0 logins>"),
    (ClientCredentials("me", SECRET), None),
]


@pytest.mark.parametrize(("described", "text"), OBJECTS, ids=lambda value: type(value).__name__)
def test_an_object_describes_itself_without_secrets(described, text):
    assert SECRET not in repr(described)
    assert text is None or repr(described) == text


def test_options_are_dicts_and_are_not_described_here():
    """Whoever prints the options that they wrote sees what they wrote."""
    assert all(
        inspect.isclass(kind) and issubclass(kind, dict)
        for name, kind in classes().items()
        if name.endswith("Options") and not issubclass(kind, Struct)
    )
