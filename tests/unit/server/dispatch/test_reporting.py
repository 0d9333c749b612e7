"""Reports of errors, where the wire does not show it."""

import logging

import pytest

from dragoman import Server


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("even this fails")


class Refusing(logging.Handler):
    def emit(self, record):
        raise RuntimeError("the disk is full")


@pytest.mark.parametrize("error", [LookupError("x"), Unprintable(), SystemExit(3)])
def test_reporting_never_fails(error):
    logger = logging.getLogger("dragoman.server")
    handler = Refusing()
    logger.addHandler(handler)
    try:
        assert Server().dispatcher.report(error, None) is None
    finally:
        logger.removeHandler(handler)
