"""Findings, and the exchanges that they show."""

from dragoman.auth.fetcher import FetchedExchange
from dragoman.inspector.doctor.findings import Findings, ShownExchange


def test_findings_are_told_as_they_are_added_and_on_one_line():
    told = []
    findings = Findings(told.append)
    findings.begin("shop", is_own=False)
    findings.passed("DNS", "a\nb")
    findings.shortcoming("tool x", "no description", "add one")
    assert [(one.step, one.detail, one.server) for one in told] == [
        ("DNS", "a b", "shop"),
        ("tool x", "no description", "shop"),
    ]
    assert (findings.all_passed, findings.has_remarks) == (True, True)
    findings.begin("own", is_own=True)
    findings.shortcoming("tool x", "no description")
    assert not findings.all_passed


def test_exchanges_are_shown_without_secrets():
    form = b"grant_type=authorization_code&code=abc123&code_verifier=verysecret"
    received = b'{"access_token":"token-value","refresh_token":"other-value","registration_access_token":"third"}'
    headers = {"Authorization": "Basic c2VjcmV0"}
    exchange = FetchedExchange("POST", "https://a.example/token?code=abc123", headers, form, 0.5, 200, {}, received)
    found = ShownExchange.of(exchange)
    text = f"{found.request} {found.response}"
    for secret in ("abc123", "verysecret", "token-value", "other-value", "third", "c2VjcmV0"):
        assert secret not in text
    assert (found.ms, found.failure, found.response.status) == (500.0, None, 200)


def test_an_exchange_without_an_answer_says_so():
    found = ShownExchange.of(FetchedExchange("GET", "https://a.example/", {}, b""))
    assert (found.response, found.failure) == (None, "there was no answer")
