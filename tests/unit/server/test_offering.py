"""What a server offers, without a `Server`."""

from dragoman.server.identity import ServerIdentity, implementation
from dragoman.server.offering import Offering
from dragoman.server.registry import Registry


def identity() -> ServerIdentity:
    return ServerIdentity(implementation("parts", "1", ()))


def test_an_offering_derives_capabilities_from_its_registry():
    registry = Registry()
    offering = Offering(identity(), registry)
    offering.derive()
    assert offering.capabilities.completions is None
    registry.hook("on_complete", lambda ref, argument: [])
    offering.derive()
    assert offering.capabilities.completions == {}
