"""For tests: a raw wire peer for a Server, what a transport must do, and a model that follows a script."""

from dragoman.testing.scripted import ScriptedModel, ScriptedRequest
from dragoman.testing.transports import check_transport
from dragoman.testing.wire import WirePeer

__all__ = ["ScriptedModel", "ScriptedRequest", "WirePeer", "check_transport"]
