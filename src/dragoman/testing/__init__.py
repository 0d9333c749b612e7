"""For tests: clients, wires and models that are easy to have, and what servers and transports must keep.

Names are imported when they are first used: pytest loads the plugin of this package into every run, wanted or not.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.testing.connecting import connected
    from dragoman.testing.scripted import ScriptedModel, ScriptedRequest
    from dragoman.testing.snapshots import assert_schemas_unchanged
    from dragoman.testing.transports import check_transport
    from dragoman.testing.wire import WirePeer

_HOMES = {
    "ScriptedModel": "dragoman.testing.scripted",
    "ScriptedRequest": "dragoman.testing.scripted",
    "WirePeer": "dragoman.testing.wire",
    "assert_schemas_unchanged": "dragoman.testing.snapshots",
    "check_transport": "dragoman.testing.transports",
    "connected": "dragoman.testing.connecting",
}

__all__ = [
    "ScriptedModel",
    "ScriptedRequest",
    "WirePeer",
    "assert_schemas_unchanged",
    "check_transport",
    "connected",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
