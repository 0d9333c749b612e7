"""The session and the channel of a client, as a mounted server sees them."""

import gc

import pytest

from dragoman import Server, types
from dragoman.forward.mount.mounted_client import MountedChannel, MountedSession
from dragoman.server.request.call import NoChannel, Session

UPDATED = "notifications/resources/updated"


@pytest.fixture
def mount():
    outer, inner = Server("outer"), Server("inner")
    inner.on_read_resource(lambda uri: uri)
    outer.mount(inner, prefix="p", exclude=["data://left/out"])
    (made,) = outer.dispatcher.mounts
    yield made
    assert outer.dispatcher.mounts is not None


class Connection(NoChannel):
    def __init__(self):
        self.sent = []

    @property
    def standalone(self):
        return self

    def notify(self, method, params):
        self.sent.append((method, params))

    def notify_updated(self, uri):
        self.sent.append(uri)


def test_a_session_has_the_uris_of_its_own_client(mount):
    session = Session(principal="ann")
    mounted = MountedSession(session, mount)
    assert mounted.principal == "ann"
    mounted.subscribe("data://a")
    session.subscribe("data://other/b")
    assert session.subscribed == {"data://p/a", "data://other/b"}
    assert mounted.subscribed == {"data://a"}
    mounted.unsubscribe("data://a")
    mounted.unsubscribe("data://left/out")
    assert session.subscribed == {"data://other/b"}


def test_a_session_that_has_ended_is_not_kept(mount):
    session = Session()
    mounted = MountedSession(session, mount)
    del session
    gc.collect()
    assert mounted.subscribed == set()


def test_a_channel_renames_the_resources_that_were_updated_and_passes_everything_else(mount):
    connection, session = Connection(), Session()
    channel = MountedChannel(connection, MountedSession(session, mount))
    channel.notify_updated("data://a")
    channel.notify(UPDATED, types.ResourceUpdatedNotificationParams("data://a"))
    channel.notify("notifications/message", {"uri": "kept"})
    assert connection.sent == [
        "data://p/a",
        (UPDATED, {"uri": "data://p/a"}),
        ("notifications/message", {"uri": "kept"}),
    ]


def test_standalone_client_is_the_same_object_for_each_request_of_a_connection(mount):
    connection, session = Connection(), Session()
    mounted = MountedSession(session, mount)
    standalone = MountedChannel(connection, mounted).standalone
    assert MountedChannel(connection, mounted).standalone is standalone
    standalone.notify(UPDATED, {"uri": "data://a"})
    assert connection.sent == [(UPDATED, {"uri": "data://p/a"})]
    other = Connection()
    assert MountedChannel(other, mounted).standalone is not standalone
    assert MountedChannel(NoChannel(), mounted).standalone is None
    del connection
    gc.collect()
    standalone.notify(UPDATED, {"uri": "data://a"})
