import logging

import pytest

from dragoman import DefinitionError, Server, types
from dragoman.protocol.versions import V2025_11_25, V2026_07_28
from dragoman.server.dispatch.runner import seal


def test_the_defaults_make_a_server():
    server = Server()
    assert (server.name, server.info.version, server.instructions, server.page_size) == ("dragoman", "0", None, None)


@pytest.mark.parametrize("version", [V2025_11_25, V2026_07_28], ids=lambda version: version.name)
def test_sealing_leaves_the_result_of_an_author_as_it_was(version):
    server = Server(ttl_ms=5, cache_scope="public")
    result = types.ReadResourceResult([], meta={"a": 1})
    sealed = seal(server, result, version)
    assert result == types.ReadResourceResult([], meta={"a": 1})
    assert (sealed.ttl_ms, sealed.cache_scope) == ((5, "public") if version.stateless else (None, None))


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("even this fails")


class Refusing(logging.Handler):
    def emit(self, record):
        raise RuntimeError("the disk is full")


@pytest.mark.parametrize("error", [LookupError("x"), Unprintable(), SystemExit(3)])
def test_reporting_never_fails(error):
    logger = logging.getLogger("dragoman.server")
    handler = Refusing()
    logger.addHandler(handler)
    try:
        assert Server().report(error, None) is None
    finally:
        logger.removeHandler(handler)


def test_the_offer_is_made_anew_only_when_something_changed():
    server = Server()
    before = server.offer
    assert server.offer is before
    server.method("acme/add")(lambda a: a)
    after = server.offer
    assert after is not before
    assert "acme/add" in after.client_methods
    assert server.offer is after


@pytest.mark.parametrize("options", [{"icons": [{"source": "x"}]}, {"icons": ["x"]}, {"ttl_ms": -1}])
def test_what_cannot_be_said_of_a_server_is_refused(options):
    with pytest.raises(DefinitionError):
        Server(**options)
