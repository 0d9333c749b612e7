"""The session and the channel of a client, as a mounted server sees them."""

import gc

from dragoman import types
from dragoman.server.mounting.client_end import MountedChannel, MountedSession
from dragoman.server.mounting.renaming import Renaming
from dragoman.server.request.call import NoChannel, Session

RENAMING = Renaming("p", "_", exclude=["data://left/out"])
UPDATED = "notifications/resources/updated"


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


def test_a_session_has_the_uris_of_its_own_client():
    session = Session(principal="ann")
    mounted = MountedSession(session, RENAMING, RENAMING.uri)
    assert mounted.principal == "ann"
    mounted.subscribe("data://a")
    session.subscribe("data://other/b")
    assert session.subscribed == {"data://p/a", "data://other/b"}
    assert mounted.subscribed == {"data://a"}
    mounted.unsubscribe("data://a")
    mounted.unsubscribe("data://left/out")
    assert session.subscribed == {"data://other/b"}


def test_a_session_that_has_ended_is_not_kept():
    session = Session()
    mounted = MountedSession(session, RENAMING, RENAMING.uri)
    del session
    gc.collect()
    assert mounted.subscribed == set()


def test_a_channel_renames_the_resources_that_were_updated_and_passes_everything_else():
    connection, session = Connection(), Session()
    channel = MountedChannel(connection, MountedSession(session, RENAMING, RENAMING.uri))
    channel.notify_updated("data://a")
    channel.notify(UPDATED, types.ResourceUpdatedNotificationParams("data://a"))
    channel.notify("notifications/message", {"uri": "kept"})
    assert connection.sent == [
        "data://p/a",
        (UPDATED, {"uri": "data://p/a"}),
        ("notifications/message", {"uri": "kept"}),
    ]


def test_what_outlives_a_request_is_one_object_for_a_connection():
    connection, session = Connection(), Session()
    mounted = MountedSession(session, RENAMING, RENAMING.uri)
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
