"""Who waits for changes is woken, from any thread."""

import asyncio
import threading

from dragoman.stores.changes import Changes, Listener


async def test_a_change_that_another_thread_reports_wakes_a_listener():
    changes = Changes()
    listener, stranger = changes.listen("key"), changes.listen("other")
    threading.Thread(target=changes.report, args=(["key", "nobody"],)).start()
    await asyncio.wait_for(listener.wait(), 5)
    assert not stranger.changed.is_set()


async def test_a_change_is_remembered_until_somebody_waits_and_then_forgotten():
    changes = Changes()
    listener = changes.listen("key")
    changes.report(["key"])
    changes.report(["key"])
    await asyncio.wait_for(listener.wait(), 5)
    assert not listener.changed.is_set()
    await listener.wait(0.001)


async def test_a_listener_listens_until_it_is_closed():
    changes = Changes()
    one, other = changes.listen("key"), changes.listen("key")
    one.close()
    one.close()
    assert changes.has_listeners
    changes.report(["key"])
    assert (one.changed.is_set(), other.changed.is_set()) == (False, True)
    other.close()
    assert not changes.has_listeners


def test_a_loop_that_is_closed_is_not_woken():
    changes = Changes()

    async def listen() -> Listener:
        return changes.listen("key")

    listener = asyncio.run(listen())
    changes.report(["key"])
    assert changes.has_listeners
    assert not listener.changed.is_set()
    changes.reset()
    assert not changes.has_listeners


async def test_a_listener_may_be_collected_while_its_thread_reports_a_change():
    def keys():
        yield "key"
        unused.clear()  # as a collection of garbage does, in the thread that holds the lock
        yield "other"

    changes = Changes()
    listener, unused = changes.listen("key"), [changes.listen("other")]
    reporting = threading.Thread(target=changes.report, args=(keys(),), daemon=True)
    reporting.start()
    await asyncio.wait_for(listener.wait(), 60)
    reporting.join(60)
    assert not reporting.is_alive()
    listener.close()
    assert not changes.has_listeners
