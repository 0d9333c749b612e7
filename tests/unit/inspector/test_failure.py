"""Errors as the page shows them."""

import pytest

from dragoman import errors
from dragoman.inspector.failure import failure_of, status_of


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (errors.InspectorError("no", 409), 409, "InspectorError"),
        (errors.NotFound("tool", "x"), 404, "NotFound"),
        (errors.MethodNotFound("no"), 502, "RpcError"),
        (errors.Timeout("late", option="timeout="), 502, "Timeout"),
        (errors.ConnectError("no"), 502, "ConnectError"),
        (errors.Cancelled("no"), 409, "Cancelled"),
        (errors.CapabilityNotAvailable("no"), 409, "CapabilityNotAvailable"),
        (errors.SessionFileError("no"), 400, "SessionFileError"),
        (KeyError("no"), 400, "KeyError"),
    ],
)
def test_each_kind_of_error_has_its_status(error, status, kind):
    assert (status_of(error), failure_of(error)["kind"]) == (status, kind)


def test_a_refusal_has_its_code_and_data():
    failure = failure_of(errors.RpcError.of(-32001, "no", {"a": 1}))
    assert (failure["code"], failure["data"], failure["message"]) == (-32001, {"a": 1}, "no")
    assert failure_of(errors.RpcError.of(-32001, "no", object()))["data"] is None


def test_a_crash_has_the_last_words_of_the_server_without_its_secrets():
    crash = errors.ServerCrashed("long", 1, "first\npassword=hunter2\n\n", "It ended.")
    failure = failure_of(crash)
    assert (failure["message"], "stderr" in failure["remedy"]) == ("It ended. It wrote: password=***", True)
    assert failure_of(errors.ServerCrashed("It ended."))["message"] == "It ended."


def test_remedies_name_no_option_of_the_library():
    assert "timeout=" not in failure_of(errors.Timeout("late", option="timeout="))["message"]
    assert "log in" in failure_of(errors.AuthRequired("no"))["remedy"]
    assert failure_of(errors.AuthRequired("no", 403))["status"] == 403


def test_a_refusal_that_repeats_secrets_is_masked():
    repeated = errors.RpcError.of(-1, "https://me:abc@example.com?token=abc", {"a": {"password": "abc"}})
    failure = failure_of(repeated)
    assert failure["message"] == "https://***@example.com?token=***"
    assert failure["data"] == {"a": {"password": "***"}}
