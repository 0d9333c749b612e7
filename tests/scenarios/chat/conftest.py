"""What the tests of chats share."""

import pytest

from scenarios.chat_checks import ERAS
from scenarios.chat_server import Town


@pytest.fixture
def town() -> Town:
    return Town()


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """Run a test in both eras of the protocol."""
    return request.param
