"""A server by itself, without a transport."""

import pytest

from dragoman import DefinitionError, Server


def test_the_defaults_make_a_server():
    server = Server()
    assert (server.name, server.info.version, server.instructions, server.page_size) == ("dragoman", "0", None, None)


def test_the_offer_is_made_anew_only_when_something_changed():
    server = Server()
    before = server.offering.offer
    assert server.offering.offer is before
    server.method("acme/add")(lambda a: a)
    after = server.offering.offer
    assert after is not before
    assert "acme/add" in after.client_methods
    assert server.offering.offer is after


@pytest.mark.parametrize("options", [{"icons": [{"source": "x"}]}, {"icons": ["x"]}, {"ttl_ms": -1}])
def test_what_cannot_be_said_of_a_server_is_refused(options):
    with pytest.raises(DefinitionError):
        Server(**options)
