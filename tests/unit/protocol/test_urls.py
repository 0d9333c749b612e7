"""What a URL is to every room."""

import pytest

from dragoman.errors import InsecureUrl
from dragoman.protocol.urls import (
    authority_of,
    host_of,
    is_http_url,
    is_localhost,
    is_loopback,
    origin_of,
    port_of,
    redacted,
    split,
)


@pytest.mark.covers("SEC-02")
@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.10", "::1", "localhost.", "::ffff:127.0.0.1"]
)
def test_this_machine_is_known_by_its_name_and_numbers(host):
    assert is_loopback(host)


@pytest.mark.covers("SEC-02")
@pytest.mark.parametrize(
    "host",
    ["127.attacker.com", "foo.localhost", "localhost.attacker.com", "10.0.0.1", "127.0.0.1.example.com", "127.1"],
)
def test_what_only_looks_like_this_machine_is_not(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("host", "is_named"),
    [("localhost", True), ("Foo.LOCALHOST.", True), ("localhost.attacker.com", False), ("127.0.0.1", False)],
)
def test_names_below_localhost_are_known(host, is_named):
    assert is_localhost(host) is is_named


@pytest.mark.covers("SEC-05")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:secret@example.com:8443/mcp?token=secret#secret", "https://example.com:8443/mcp"),
        ("http://ada:secret@[::1/mcp?token=secret", "[::1/mcp"),
        ("http://[::1/mcp#secret", "http://[::1/mcp"),
        ("no address", "no address"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url, shown):
    assert redacted(url) == shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.com", True),
        ("HTTPS://[::1]:1/", True),
        ("ftp://example.com/", False),
        ("https:///mcp", False),
        ("http://[::1", False),
        ("example.com", False),
    ],
)
def test_a_url_of_http_is_absolute(url, expected):
    assert is_http_url(url) is expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://",
        "https://a:port/",
        "https://[::1/",
        "https://a\\@b/",
        "https://a b/",
        "https://%31.1/",
        "//\n",
        "http://[::1].a/",
    ],
)
def test_a_url_whose_host_is_not_plain_is_refused(url):
    with pytest.raises(InsecureUrl):
        split(url)


@pytest.mark.parametrize(
    ("url", "origin", "port"),
    [
        ("HTTPS://u:p@Example.COM:443/a?b#c", "https://example.com", 443),
        ("http://localhost:8000", "http://localhost:8000", 8000),
        ("http://[::1]/", "http://[::1]", 80),
        ("ws://example.com/", "ws://example.com", None),
        ("https://[fe80::1%25eth0]:1/", "https://[fe80::1%25eth0]:1", 1),
    ],
)
def test_an_origin_has_one_spelling(url, origin, port):
    assert origin_of(url) == origin
    assert port_of(split(url)) == port
    assert f"{split(url).scheme}://{authority_of(split(url))}" == origin
    assert host_of(url) in origin
