"""The decisions about tasks, without an engine."""

import pytest

from dragoman.stores import transitions
from dragoman.stores.transitions import KeptTask

READY = KeptTask("id", "ann", b"value", 1, "ready", 0, 1000.0, None, None)
RUNNING = READY._replace(phase="running", token=3, lease_until=1030.0)
FINISHED = RUNNING._replace(phase="finished", lease_until=None)


def test_a_new_task_is_ready_or_held_and_its_life_begins_now():
    assert transitions.created("id", b"value", "ann", None, None, now=1000.0, revision=1) == READY
    held = transitions.created("id", b"value", "ann", 60, 30, now=1000.0, revision=1)
    assert (held.phase, held.token, held.lease_until, held.expires_at) == ("running", 1, 1030, 1060)
    assert not held.is_expired(1059.9)
    assert held.is_expired(1060)
    assert not READY.is_expired(10**10)


def test_a_record_has_no_owner_and_no_lease():
    record = RUNNING.record(was_lost=True)
    assert record == ("id", b"value", 1, "running", 3, 1000.0, None, True, b"")
    assert not hasattr(record, "owner")


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


def test_a_change_that_expects_another_revision_or_token_or_an_unfinished_task_is_refused():
    def change(task, expected, token):
        return transitions.changed(task, b"new", "parked", expected=expected, token=token, revision=9)

    assert change(RUNNING, 2, None) is None
    assert change(RUNNING, 1, 2) is None
    assert change(FINISHED, 1, 3) is None
    parked = change(RUNNING, 1, 3)
    assert (parked.value, parked.phase, parked.revision, parked.lease_until) == (b"new", "parked", 9, None)
    assert change(RUNNING, None, None) == parked


def test_a_change_keeps_the_phase_the_lease_and_the_life_unless_it_names_them():
    task = RUNNING._replace(expires_at=1060.0)
    kept = transitions.changed(task, b"new", None, expected=1, token=None, revision=9)
    assert kept == task._replace(value=b"new", revision=9)
    longer = transitions.changed(task, b"new", None, expected=1, token=None, revision=9, ttl=500)
    assert longer.expires_at == 1500
