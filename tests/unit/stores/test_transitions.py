"""The decisions about tasks, without an engine."""

import pytest

from dragoman.stores import transitions
from dragoman.stores.operations import NewTask, TaskChange
from dragoman.stores.transitions import KeptTask

READY = KeptTask("id", "ann", b"value", 1, "ready", 0, 1000.0, None, None)
RUNNING = READY._replace(phase="running", token=3, lease_until=1030.0)
FINISHED = RUNNING._replace(phase="finished", lease_until=None)


def test_a_new_task_is_ready_or_held_and_its_life_begins_now():
    new = NewTask("id", b"value", "ann", "", b"", None, None)
    assert transitions.created(new, now=1000.0, revision=1) == READY
    held = transitions.created(new._replace(ttl=60, lease=30), now=1000.0, revision=1)
    assert (held.phase, held.token, held.lease_until, held.expires_at) == ("running", 1, 1030, 1060)
    assert not held.is_expired(1059.9)
    assert held.is_expired(1060)
    assert not READY.is_expired(10**10)


def test_a_running_task_is_lost_when_its_lease_has_run_out():
    assert not RUNNING.is_lost(1029.9)
    assert RUNNING.is_lost(1030)
    assert RUNNING._replace(lease_until=None).is_lost(0)
    assert not READY.is_lost(10**10)
    assert not FINISHED.is_lost(10**10)


def test_a_claim_gives_the_next_token():
    held = transitions.claimed(RUNNING, 30, now=2000, revision=7)
    assert (held.token, held.revision, held.lease_until, held.phase) == (4, 7, 2030, "running")


@pytest.mark.parametrize("task", [READY, FINISHED, RUNNING._replace(token=4), RUNNING._replace(phase="parked")])
def test_only_the_newest_holder_of_a_running_task_renews_and_releases_it(task):
    assert transitions.renewed(task, 3, 30, now=2000) is None
    assert transitions.released(task, 3, revision=2) is None
    assert transitions.renewed(RUNNING, 3, 30, now=2000) == RUNNING._replace(lease_until=2030)
    assert transitions.released(RUNNING, 3, revision=2) == RUNNING._replace(phase="ready", lease_until=None, revision=2)


def test_a_change_keeps_the_phase_the_lease_and_the_life_unless_it_names_them():
    task, change = RUNNING._replace(expires_at=1060.0), TaskChange("id", b"new", None, 1, None, None)
    assert transitions.changed(task, change, revision=9) == task._replace(value=b"new", revision=9)
    longer = transitions.changed(task, change._replace(phase="parked", ttl=500), revision=9)
    assert (longer.phase, longer.lease_until, longer.expires_at) == ("parked", None, 1500)
