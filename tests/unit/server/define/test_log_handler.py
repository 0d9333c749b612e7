"""Records of Python's logging on their way to clients."""

import logging
from typing import Any

import pytest

from dragoman.server import LogHandler


class Target:
    def __init__(self, failure: Exception | None = None) -> None:
        self.logged: list[tuple[Any, ...]] = []
        self.failure = failure

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        if self.failure is not None:
            raise self.failure
        self.logged.append((level, data, logger))


def record(number: int, message: str = "%s", **options: Any) -> logging.LogRecord:
    return logging.makeLogRecord(
        {"name": "unit", "levelno": number, "levelname": logging.getLevelName(number), "msg": message, **options}
    )


@pytest.mark.parametrize(
    ("number", "level"),
    [
        (0, "debug"),
        (logging.DEBUG, "debug"),
        (19, "debug"),
        (logging.INFO, "info"),
        (29, "info"),
        (logging.WARNING, "warning"),
        (logging.ERROR, "error"),
        (logging.CRITICAL, "critical"),
        (1000, "critical"),
    ],
)
def test_a_record_has_the_level_that_its_number_reaches(number, level):
    target = Target()
    LogHandler(target).emit(record(number, "text"))
    assert target.logged == [(level, "text", "unit")]


def test_a_record_is_formatted_as_the_handler_is_told_to():
    target = Target()
    handler = LogHandler(target)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.emit(record(logging.INFO, "%d apples", args=(3,)))
    assert target.logged == [("info", "INFO: 3 apples", "unit")]


def test_a_handler_has_a_level_of_its_own():
    target = Target()
    handler = LogHandler(target, logging.ERROR)
    assert handler.level == logging.ERROR
    logger = logging.getLogger("unit.loghandler")
    logger.addHandler(handler)
    try:
        logger.warning("not this")
        logger.error("but this")
    finally:
        logger.removeHandler(handler)
    assert target.logged == [("error", "but this", "unit.loghandler")]


def test_what_fails_while_logging_is_pythons_business_and_not_the_callers(monkeypatch, capsys):
    monkeypatch.setattr(logging, "raiseExceptions", True)
    LogHandler(Target(OSError("gone"))).emit(record(logging.INFO, "text"))
    assert "OSError: gone" in capsys.readouterr().err
