"""How a server describes itself."""

import pytest

from dragoman import Configuration, DefinitionError
from dragoman.server.identity import ServerIdentity, implementation
from dragoman.server.offering import Offering
from dragoman.server.registry import Registry


def identity() -> ServerIdentity:
    return ServerIdentity(implementation("parts", "1", ()))


def test_an_identity_keeps_its_values_when_a_change_is_refused():
    described, registry = identity(), Registry()
    offering = Offering(described, registry, Configuration(protocol_version="2025-03-26"))
    described.on_change = offering.require_carried
    with pytest.raises(DefinitionError, match="title"):
        described.describe(title="Parts")
    assert described.info.title is None
    described.describe(version="2")
    assert described.info.version == "2"
    assert b'"version":"2"' in bytes(described.info_bytes)
