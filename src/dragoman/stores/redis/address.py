"""`RedisAddress`: where a Redis server is, and how to log in, as a URL says it.

    redis://user:password@host:6379/0                                 one server
    rediss://user:password@host:6379/0                                one server, with TLS
    unix:///run/redis.sock?db=0                                       one server on this machine
    redis+sentinel://user:password@host:26379,host2:26379/service/0   the master that Sentinels name
    rediss+sentinel://...                                             the same, with TLS

No text of this module shows the user, the password or the query of a URL.
"""

from __future__ import annotations

import re
import ssl
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from dragoman.errors import ConfigError

REDIS_PORT = 6379
SENTINEL_PORT = 26379
SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
OPTIONS = (
    *("db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname", "ssl_cert_reqs"),
    *("sentinel_username", "sentinel_password"),
)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:]+)(?::(\d+))?")


class Login(NamedTuple):
    """A user and a password; without a password, nobody logs in."""

    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return "Login(...)"

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of HELLO that log in."""
        return () if self.password is None else ("AUTH", self.username or "default", self.password)


class RedisAddress:
    """Where a Redis server is, and how to log in.

    Example:
        RedisAddress("rediss://shop:secret@redis.example:6379/1")

    Raises:
        ConfigError: the URL is invalid; the message does not repeat it.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            options = dict(parse_qsl(parts.query, keep_blank_values=True))
        except ValueError:
            raise _invalid("it is no URL") from None
        if parts.scheme not in SCHEMES:
            raise _invalid(f"it must begin with one of {', '.join(scheme + '://' for scheme in SCHEMES)}")
        if unknown := options.keys() - set(OPTIONS):
            raise _invalid(f"it has unknown options ({len(unknown)}); the options are {', '.join(OPTIONS)}")
        login, _, place = parts.netloc.rpartition("@")
        username, _, password = login.partition(":")
        self.login = Login(unquote(username) or None, unquote(password) or None)
        self.sentinel_login = Login(options.get("sentinel_username"), options.get("sentinel_password"))
        self.path = unquote(parts.path) if parts.scheme == "unix" else None
        self.service, database = _service_and_database(parts, options)
        self.database = _number(database)
        default_port = REDIS_PORT if self.service is None else SENTINEL_PORT
        self.hosts = [] if self.path is not None else [_host(host, default_port) for host in place.split(",")]
        if self.service is None and len(self.hosts) > 1:
            raise _invalid("it has several hosts; begin it with redis+sentinel://, or name one host")
        self.tls = _tls(options) if parts.scheme.startswith("rediss") else None
        places = self.path or ",".join(f"{host}:{port}" for host, port in self.hosts)
        self._text = f"{parts.scheme}://{places}" + (f"/{self.service}" if self.service else "")

    def __repr__(self) -> str:
        return self._text

    def rotate(self) -> None:
        """Put the first host last. Several loops may use this address, so the list is replaced at once."""
        self.hosts = self.hosts[1:] + self.hosts[:1]


def _invalid(why: str) -> ConfigError:
    return ConfigError(
        f"The URL of Redis cannot be used: {why}. Write special characters of a password as %40 (@), %2F (/), %23 (#)"
    )


def _service_and_database(parts: SplitResult, options: dict[str, str]) -> tuple[str | None, str]:
    if parts.scheme == "unix":
        return None, options.get("db", "0")
    path = [unquote(part) for part in parts.path.strip("/").split("/")] if parts.path.strip("/") else []
    service = None
    if parts.scheme.endswith("sentinel"):
        if not path:
            raise _invalid("it does not name the service that the Sentinels watch, as in /mymaster")
        service, path = path[0], path[1:]
    if len(path) > 1 or parts.fragment:
        raise _invalid("what follows the host must be the number of a database")
    return service, options.get("db", path[0] if path else "0")


def _number(database: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", database):
        raise _invalid("what follows the host must be the number of a database")
    return int(database)


def _host(text: str, default_port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None or int(found[2] or 0) > 65535:
        raise _invalid("its host or port is missing or invalid")
    return found[1].strip("[]"), int(found[2] or default_port)


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if "ssl_certfile" in options:
            context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    except OSError as error:  # includes ssl.SSLError
        raise _invalid(f"a file of ssl_ca_certs, ssl_certfile or ssl_keyfile cannot be read ({error})") from None
    if options.get("ssl_check_hostname", "true").lower() in ("false", "0", "no"):
        context.check_hostname = False
    if options.get("ssl_cert_reqs", "required").lower() == "none":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
