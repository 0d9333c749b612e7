"""What the options of ready-made middleware take."""

import math

import pytest

from dragoman import Server
from dragoman.errors import DefinitionError
from dragoman.server.middleware import Concurrency, MaxResult, RateLimit, RequestTimeout

pytestmark = pytest.mark.covers("MID-05")


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: RateLimit(0, seconds=1), "requests"),
        (lambda: RateLimit(True, seconds=1), "requests"),
        (lambda: RateLimit(1, seconds=math.inf), "seconds"),
        (lambda: RateLimit(1, seconds="1"), "seconds"),
        (lambda: RateLimit(1, seconds=1, burst=0), "burst"),
        (lambda: RateLimit(1, seconds=1, burst=1.5), "burst"),
        (lambda: RateLimit(1, seconds=1, max_keys=0), "max_keys"),
        (lambda: RateLimit(1, seconds=1, by="user"), 'by must be "principal", "session" or a function'),
        (lambda: RateLimit(1, seconds=1, methods="tools/call"), "methods must be a list"),
        (lambda: RateLimit(1, seconds=1, methods=()), "methods must be a list"),
        (lambda: RateLimit(1, seconds=1, methods=[1]), "methods must be a list"),
        (lambda: Concurrency(), "needs a limit"),
        (lambda: Concurrency(0), "limit"),
        (lambda: Concurrency(per_key=0), "per_key"),
        (lambda: Concurrency(1, max_waiting=-1), "max_waiting"),
        (lambda: Concurrency(1, wait=0), "wait"),
        (lambda: MaxResult(10), "max_bytes must be an integer of at least 1000"),
        (lambda: RequestTimeout(-1), "seconds"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_at_once(make, named):
    with pytest.raises(DefinitionError, match=named):
        make()


def test_every_middleware_can_be_registered_and_describes_itself():
    server = Server("shop")
    for one in (RateLimit(60, seconds=60), Concurrency(20, per_key=2), MaxResult(5000), RequestTimeout(30)):
        assert server.middleware(one) is one
    assert [repr(one) for one in server.dispatcher.middlewares] == [
        "<RateLimit of 60 requests in 60 seconds>",
        "<Concurrency of 20, 2 for each key>",
        "<MaxResult of 5000 bytes>",
        "<RequestTimeout of 30 seconds>",
    ]
