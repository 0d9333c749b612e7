"""What the faults of a tap make of a message."""

import pytest

from dragoman.compose.tap.faults import Faults


@pytest.mark.parametrize(
    ("faults", "sent"),
    [
        (Faults(), (b"abcd", False)),
        (Faults(duplicate=True), (b"abcdabcd", False)),
        (Faults(garbage=True), (b"?abcd", False)),
        (Faults(cut=True), (b"ab", True)),
        (Faults(cut=True, at=2), (b"abcd", False)),
        (Faults(duplicate=True, at=1), (b"abcdabcd", False)),
    ],
)
def test_a_fault_meets_every_message_or_the_one_with_its_number(faults, sent):
    assert faults.apply(b"abcd", 1, b"?") == sent


def test_a_status_changes_no_message():
    assert not Faults(status=404).change_messages
    assert Faults(delay=1).change_messages
