"""Test helpers: connected clients, wire peers, scripted models, and checks of schemas, stores and transports.

Each name is imported on first use.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.testing.cassettes.cassette import Cassette as Cassette
    from dragoman.testing.cassettes.cassette import cassette as cassette
    from dragoman.testing.connecting import connected as connected
    from dragoman.testing.scripted import ScriptedModel as ScriptedModel
    from dragoman.testing.scripted import ScriptedRequest as ScriptedRequest
    from dragoman.testing.snapshots import assert_schemas_unchanged as assert_schemas_unchanged
    from dragoman.testing.stores.check import check_store as check_store
    from dragoman.testing.transports import check_transport as check_transport
    from dragoman.testing.wire import WirePeer as WirePeer
else:
    __getattr__, __dir__ = lazy()
