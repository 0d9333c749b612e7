"""What a URL of Redis says, and what no error repeats of it."""

import ssl

import pytest

from dragoman.errors import ConfigError
from dragoman.stores.redis.address import RedisAddress


@pytest.mark.parametrize(
    ("url", "hosts", "database", "service"),
    [
        ("redis://redis.example", [("redis.example", 6379)], 0, None),
        ("redis://redis.example:7000/3", [("redis.example", 7000)], 3, None),
        ("redis://redis.example/3?db=4", [("redis.example", 6379)], 4, None),
        ("redis://[::1]:7000/", [("::1", 7000)], 0, None),
        ("redis+sentinel://a,b:7000,[::1]/main", [("a", 26379), ("b", 7000), ("::1", 26379)], 0, "main"),
        ("redis+sentinel://a/main/2", [("a", 26379)], 2, "main"),
    ],
)
def test_a_url_names_hosts_a_database_and_a_service(url, hosts, database, service):
    address = RedisAddress(url)
    assert (address.hosts, address.database, address.service, address.tls) == (hosts, database, service, None)


def test_a_url_may_name_a_socket_of_this_machine():
    address = RedisAddress("unix://:secret@/run/my%20redis.sock?db=2")
    assert (address.path, address.database, address.hosts) == ("/run/my redis.sock", 2, [])
    assert address.login.arguments() == ("AUTH", "default", "secret")


def test_a_user_and_a_password_are_decoded():
    assert RedisAddress("redis://shop:p%40ss%2Fword@host").login == ("shop", "p@ss/word")
    assert RedisAddress("redis://:secret@host").login.arguments() == ("AUTH", "default", "secret")
    assert RedisAddress("redis://host").login.arguments() == ()
    sentinel = RedisAddress("redis+sentinel://host/main?sentinel_username=watch&sentinel_password=secret")
    assert (sentinel.login.arguments(), sentinel.sentinel_login) == ((), ("watch", "secret"))


def test_tls_verifies_the_server_unless_the_url_says_otherwise():
    verified, named, trusting = (
        RedisAddress(f"rediss://host{options}").tls
        for options in ("", "?ssl_check_hostname=false", "?ssl_cert_reqs=none")
    )
    assert verified is not None
    assert named is not None
    assert trusting is not None
    assert (verified.verify_mode, verified.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (named.verify_mode, named.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert (trusting.verify_mode, trusting.check_hostname) == (ssl.CERT_NONE, False)
    assert RedisAddress("rediss+sentinel://host/main").tls is not None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://user:topsecret@host", "must begin with"),
        ("redis://user:topsecret@", "host or port"),
        ("redis://user:topsecret@host:port", "host or port"),
        ("redis://user:topsecret@host:99999", "host or port"),
        ("redis://user:topsecret@a,b", "several hosts"),
        ("redis://user:topsecret@host/one", "number of a database"),
        ("redis://user:topsecret@host/1/2", "number of a database"),
        ("redis://user:top#secret@host", "number of a database"),
        ("redis://user:7/topsecret@host", "number of a database"),
        ("redis://user:topsecret@host?topsecret=1", "unknown options"),
        ("redis+sentinel://user:topsecret@host", "does not name the service"),
        ("rediss://user:topsecret@host?ssl_ca_certs=/nowhere/ca.pem", "cannot be read"),
        ("rediss://user:topsecret@host?ssl_certfile=/nowhere/cert.pem", "cannot be read"),
        ("redis://user:topsecret@[host", "no URL"),
    ],
)
def test_an_invalid_url_is_refused_without_a_word_of_its_secrets(url, why):
    with pytest.raises(ConfigError, match=why) as raised:
        RedisAddress(url)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_the_first_of_several_hosts_can_give_way_to_the_next():
    address = RedisAddress("redis+sentinel://a,b,c/main")
    address.rotate()
    assert [host for host, _ in address.hosts] == ["b", "c", "a"]


def test_no_text_shows_the_secrets_of_a_url():
    address = RedisAddress("rediss+sentinel://shop:topsecret@host/main?sentinel_password=topsecret")
    assert repr(address) == "rediss+sentinel://host:26379/main"
    assert "topsecret" not in f"{address} {address.login} {address.sentinel_login!r}"
    assert repr(RedisAddress("unix:///run/redis.sock")) == "unix:///run/redis.sock"
