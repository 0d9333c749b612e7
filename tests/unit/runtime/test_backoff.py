import pytest

from dragoman.runtime.backoff import backoff


@pytest.mark.parametrize(
    ("attempt", "first", "longest", "plain"),
    [(0, 1.0, 30.0, 1.0), (1, 1.0, 30.0, 2.0), (5, 1.0, 30.0, 30.0), (10**6, 0.05, 2.0, 2.0), (3, 60.0, 30.0, 60.0)],
)
def test_pauses_grow_to_a_bound_are_scattered_and_never_shorter_than_the_first(attempt, first, longest, plain):
    pauses = [backoff(attempt, first, longest) for _ in range(100)]
    assert all(plain <= pause <= 1.5 * plain for pause in pauses)
    assert len(set(pauses)) > 1
