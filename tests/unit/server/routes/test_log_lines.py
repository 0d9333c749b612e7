"""Log lines on stderr: text, and JSON."""

import json
import logging
import sys

from dragoman.server.routes.log_lines import JsonLines, log_to_stderr


def record(message: str, *args: object, **attributes: object) -> logging.LogRecord:
    made = logging.LogRecord("dragoman.server", logging.WARNING, "f.py", 1, message, args, None)
    vars(made).update(attributes)
    return made


def test_a_record_is_one_line_of_json_with_its_fields():
    line = JsonLines().format(record("a\n%s", "b", fields={"status": 200, "path": "/mcp"}, created=0.5))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.500+00:00",
        "level": "warning",
        "logger": "dragoman.server",
        "message": "a\nb",
        "status": 200,
        "path": "/mcp",
    }


def test_an_exception_is_a_field_and_a_value_without_json_is_text():
    try:
        int("lost")
    except ValueError:
        line = JsonLines().format(record("failed", exc_info=sys.exc_info(), fields={"value": Ellipsis}))
    parsed = json.loads(line)
    assert parsed["exception"].endswith("with base 10: 'lost'")
    assert parsed["value"] == "Ellipsis"


def test_a_logger_writes_to_stderr_alone(capsys):
    logger = logging.getLogger("dragoman.test_log_lines")
    for form in ("text", "json"):
        log_to_stderr(logger, form)
        logger.warning("here")
    text, parsed = capsys.readouterr().err.splitlines()
    assert text.endswith("WARNING dragoman.test_log_lines: here")
    assert json.loads(parsed)["message"] == "here"
    assert logger.propagate is False
