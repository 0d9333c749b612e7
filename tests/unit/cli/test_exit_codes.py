"""Errors as a person at the command line reads them, and their exit codes."""

import pytest

from dragoman import errors
from dragoman.cli.exit_codes import error_json, exit_code, for_person, one_line


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (errors.ToolError("it broke"), 1),
        (LookupError("x"), 1),
        (errors.ConfigError("no such file"), 2),
        (errors.SessionFileError("no such file"), 2),
        (errors.ConnectError("nobody is there"), 3),
        (errors.AuthRequired("who are you?", 401), 3),
        (errors.InvalidParams("what?"), 4),
        (errors.ValidationError("a list"), 4),
        (errors.Timeout("too late"), 5),
        (errors.ModelError("away"), 3),
        (errors.ModelError("no", status=400), 4),
    ],
)
def test_an_error_has_the_documented_code(error, code):
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("it wants credentials (status 401); give auth= or headers=", "; give --token or --header"),
        ("refused; is what auth= or headers= gives right?", "is what --token or --header gives right?"),
        (
            "protocol_version '1' is not available with mode 'auto'",
            "--protocol-version '1' is not available with --mode",
        ),
        ("There are more than 3 pages of tools; raise max_pages", "more than 3 pages of tools"),
        ("ended; let it send less at a time, or raise max_message_bytes", "ended; let it send less at a time"),
        (
            "at most 9 are accepted; raise max_message_bytes",
            "at most 9 are accepted; let the server send less at a time",
        ),
        ("needs a key: give api_key=..., or set OPENAI_API_KEY", "needs a key: set OPENAI_API_KEY"),
        ("speaks as OpenAI's does, give base_url=...", "give --base-url"),
        ("private; give it as issuer=", "name it as `issuer` of `oauth` in a configuration file"),
    ],
)
def test_a_person_is_not_told_of_keyword_arguments(given, said):
    assert for_person(given).endswith(said) or said in for_person(given)
    assert "= " not in for_person(given)
    assert not for_person(given).endswith("=")
    found = error_json(errors.ConnectError(given), 3)["error"]
    assert said in found["message"]


def test_an_error_is_one_line_with_its_cause():
    assert one_line(errors.ConfigError("a\n  b")) == "a b"
    assert one_line(LookupError("x\ny")) == "LookupError: x y; --verbose shows where"
    assert one_line(errors.InvalidParams("what?")) == "the server refused (-32602): what?"
    assert one_line(errors.ServerCrashed("It ended.", exit_code=1, stderr_tail="")) == "It ended."
    assert one_line(errors.InternalError("no")).startswith("the server refused (-32603): no; the server's log says why")


def test_a_crash_is_one_line_with_the_place_in_the_users_file():
    ours = '  File "/venv/lib/site-packages/dragoman/server.py", line 7, in tool'
    tail = f'  File "/home/a.py", line 3, in <module>\n    x\n{ours}\n    y\nKeyError: 1\n'
    crash = errors.ServerCrashed("It ended. All of it", 1, tail, "It ended.")
    assert one_line(crash) == 'It ended. It wrote: KeyError: 1 (File "/home/a.py", line 3; --verbose shows all of it)'
    tail = "ImportError: cannot import name 'Server' from partially initialized module 'dragoman'"
    hidden = one_line(errors.ServerCrashed("It ended. All of it", 1, tail, "It ended."))
    assert hidden.endswith(
        "(your file dragoman.py hides the package, so give it another name; --verbose shows all of it)"
    )
    crash = errors.ServerCrashed("It ended. All of it", 1, "no traceback\n", "It ended.")
    assert one_line(crash) == "It ended. It wrote: no traceback (--verbose shows all of it)"
