"""What is shown of what servers say."""

import pytest

from dragoman.cli.terminal import clean


@pytest.mark.covers("CMD-17")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("line\r\nend", "line\nend"),
        ("over\rwritten", "over\ufffdwritten"),
        ("\x1b]0;title\x07", "\ufffd]0;title\ufffd"),
        ("\x9b31m\u202ereversed", "\ufffd31m\ufffdreversed"),
        ("grüße 東京 🙂", "grüße 東京 🙂"),
    ],
)
def test_control_characters_are_replaced(text, shown):
    assert clean(text) == shown
